//! What holds of stored objects at one process holds at two replicas that are asked in turn, where the ledger stores bodies
//! and they are no larger than a row of the ledger may be.

use super::faults;
use crate::in_turns::in_turns;

#[test]
fn stored_objects_are_the_same_at_two_replicas() {
    in_turns(&[
        super::a_response_is_retrieved_as_it_was_given,
        super::what_was_refused_doesnt_come_out,
        super::a_response_made_in_the_background_is_judged_when_it_is_there,
        super::a_stream_in_the_background_that_broke_is_found_again,
        super::nobody_gets_anothers_objects_and_no_other_upstream_is_asked,
        super::a_fallback_that_has_a_response_never_sees_the_callers_key,
        super::items_are_written_as_input_is_and_read_with_marks,
        super::items_that_nobody_was_given_are_left_out,
        super::compacting_and_counting,
        super::what_the_policy_and_the_upstream_keep_nothing_of_is_refused,
    ]);
}

#[test]
fn faults_of_stored_objects_are_the_same_at_two_replicas() {
    in_turns(&[
        faults::a_response_that_is_fetched_late_leaves_owed_what_later_turns_owe,
        faults::an_error_instead_of_a_response_is_the_same_error_again,
        faults::lists_after_a_rejection_are_whole_in_either_order,
        faults::errors_come_as_they_do_for_answers,
        faults::a_compaction_that_can_be_read_is_judged,
        faults::a_page_of_which_nothing_is_left_isnt_the_end_of_a_list,
    ]);
}
