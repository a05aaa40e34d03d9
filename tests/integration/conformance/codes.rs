//! Which rows find which code. Without an entry here a new code doesn't compile.

use toolmark::violation::Code;

pub enum Coverage {
    /// Found in every form by these rows.
    Built(&'static [&'static str]),
    /// Not found at all yet; what brings it.
    NotBuilt(&'static str),
    /// It takes more than one request, or a ledger that fails: the test that has it.
    Elsewhere(&'static str),
    /// Found by this row where the application speaks chat completions only, and why.
    ChatOnly(&'static str, &'static str),
}

const LOOPS: [&str; 8] = [
    "loop_of_failures",
    "loop_of_identical_calls",
    "loop_of_one_tool",
    "loop_of_all_tools",
    "loop_of_a_tool_of_its_own_limit",
    "loop_that_ends",
    "loop_that_ends_at_once",
    "loop_of_invented_tools",
];

pub fn coverage(code: Code) -> Coverage {
    use Coverage::{Built, ChatOnly, Elsewhere, NotBuilt};
    match code {
        Code::UnknownTool => Built(&["unknown_tool", "malformed_name"]),
        Code::MalformedArguments => {
            Built(&["malformed_arguments", "a_name_twice", "no_object", "function_for_custom", "refused_by_the_upstream"])
        }
        Code::MissingRequired => Built(&["missing_required"]),
        Code::WrongType => Built(&["wrong_type"]),
        Code::SchemaViolation => Built(&["schema_violation"]),
        Code::UnknownParameter => Built(&["unknown_parameter", "unknown_parameter_strict"]),
        Code::NullOptional => Built(&["null_optional"]),
        Code::PlaceholderValue => Built(&["placeholder_value"]),
        Code::SuspiciousLength => Built(&["suspicious_length"]),
        Code::TooManyCalls => Built(&["too_many_calls"]),
        Code::ToolChoiceIgnored => Built(&["required_ignored", "none_ignored", "named_ignored", "allowed_ignored", "one_at_a_time"]),
        Code::LoopDetected => Built(&LOOPS),
        Code::UndeclaredTool => Built(&["undeclared_tool"]),
        Code::TruncatedCall => Built(&["truncated_call", "truncated_by_a_filter"]),
        Code::EmptyAnswer => Built(&["empty_answer", "empty_answer_strict"]),
        Code::DuplicateCallId => Built(&["duplicate_call_id"]),
        Code::CorrectedSyntax => Built(&["corrected_syntax", "corrected_in_many_ways"]),
        Code::CorrectedName => Built(&["corrected_name", "corrected_prefix", "corrected_name_of_a_custom_tool", "corrected_in_many_ways"]),
        Code::CorrectedTypes => Built(&["corrected_types", "corrected_in_many_ways"]),
        Code::CorrectedNullOptional => Built(&["corrected_null_optional", "corrected_in_many_ways"]),
        Code::CorrectedParameters => Built(&["corrected_parameters"]),
        Code::CorrectedTextual => Built(&["promoted", "promoted_in_parallel", "promoted_with_typed_values"]),
        Code::TextualToolCall => Built(&["textual_tool_call", "textual_tool_call_blocked"]),
        Code::UnansweredCall => Built(&["unanswered_call", "unanswered_call_strict"]),
        Code::OrphanResult => Built(&["orphan_result", "orphan_result_strict"]),
        Code::DuplicateResult => Built(&["duplicate_result", "duplicate_result_strict"]),
        Code::MisorderedResult => ChatOnly("misordered_result", "the Responses API takes results in any place behind their calls"),
        Code::UnverifiedCall => Built(&["unverified_call", "unverified_call_strict"]),
        Code::AlteredCall => Built(&["altered_call", "altered_call_strict"]),
        Code::RewrittenResult => NotBuilt("the ledger"),
        Code::StrayText => Elsewhere("places"),
        Code::ImpreciseNumber => Built(&["imprecise_number"]),
        Code::TrimmedResult => Elsewhere("ledger::first"),
        Code::UnofferedCall => Elsewhere("responses_stateful"),
        Code::VerifierContradiction => Elsewhere("verifier"),
        Code::StateMismatch | Code::StateUnknown => Elsewhere("mcp::state"),
        Code::LedgerUnavailable => Elsewhere("ledger_failures"),
        Code::HistoryIncomplete => Elsewhere("mcp::restarts"),
        Code::ForgedStamp => Built(&["forged_stamp", "forged_stamp_line", "forged_stamp_strict"]),
        Code::InvalidToolSchema => Built(&["invalid_tool_schema", "two_tools_of_one_name", "invalid_tool_schema_strict"]),
        Code::SchemaDrift => Built(&["schema_drift", "schema_drift_blocked"]),
        Code::MissingTool => Built(&["missing_tool"]),
        Code::LargeResult => Built(&["large_result"]),
        Code::DuplicatePathSegment => Built(&["duplicate_path_segment"]),
        Code::FailedResult => Built(&["failed_result", "failed_result_member", "failed_result_blocked"]),
        Code::MessageOrder => Built(&["message_order"]),
        Code::UnknownExecution => Built(&["unknown_execution", "unknown_execution_label", "unknown_execution_in_json", "id_in_arguments"]),
        Code::ExpiredExecution => Built(&["expired_execution"]),
        Code::ToolMismatch => Built(&["tool_mismatch"]),
        Code::MissingExecutionId => Built(&["missing_execution_id", "missing_execution_id_python", "transcript", "output_written"]),
        Code::UnsupportedClaim => Built(&["unsupported_claim", "unsupported_after_a_failure"]),
        Code::ExecutionElsewhere => Built(&["execution_elsewhere", "execution_elsewhere_blocked"]),
        Code::ClaimMismatch => Built(&["claim_mismatch", "claim_mismatch_blocked", "claim_mismatch_line"]),
        Code::UnsupportedAction => Built(&["unsupported_action", "unsupported_action_blocked"]),
        Code::FailedExecution => Built(&["failed_execution", "failed_execution_blocked"]),
        Code::UngroundedValue => Built(&["ungrounded_value", "ungrounded_value_blocked"]),
        Code::FabricatedUrl => Built(&["fabricated_url", "fabricated_url_blocked"]),
        Code::CountMismatch => Built(&["count_mismatch", "count_mismatch_blocked"]),
        Code::FalseAbsence => Built(&["false_absence", "false_absence_blocked"]),
        Code::MissingCitation => Built(&["missing_citation", "missing_citation_strict"]),
        Code::NotJudged => Built(&["not_judged"]),
    }
}
