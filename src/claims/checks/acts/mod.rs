//! Acts and looks that an answer reports and nothing in the conversation accounts for. Pure.
//!
//! The claim bears the burden of proof: whatever the verb, a sentence in which the answer says that something was done in the
//! world needs an execution that succeeded and can do more than read. What is listed is what needs none: acts of language and
//! thought. The words lie in `lexicon/acts.toml`, one table per language.

pub mod act_sentence;
mod claimed_act;
mod excuses;
pub mod further;
pub mod halves;
pub mod idle;
mod looks;
mod open_part;
mod orders;
mod readings;
mod reference;
pub mod speech;
mod talk;
pub mod unlooked;

use crate::{
    checks::acts::{
        act_sentence::{ActSentence, Before},
        claimed_act::ClaimedAct,
        excuses::is_of_document,
        looks::{is_ordered_deed, looked, sources},
        readings::is_plain_present,
        speech::{
            Speech,
            reported::{ActForm, ReportedAct, ReportedActs},
        },
    },
    context::ClaimFinding,
    evidence::{EvidenceIndex, tool_capabilities::ToolCapabilities},
    language::lexicon::Word,
    passage::Kind,
    plain::AnalyzedPassage,
};

pub(crate) use talk::is_of_talk;

/// The finding of a sentence that reports something as done or looked up that nothing that ran accounts for.
pub(crate) fn acts(
    passage: &AnalyzedPassage,
    kind: Kind,
    told: &ReportedActs,
    abilities: &ToolCapabilities,
    grounds: Option<&EvidenceIndex>,
    before: Before,
) -> Option<ClaimFinding> {
    let AnalyzedPassage { text, words, .. } = passage;
    if abilities.unseen || abilities.tools.is_empty() {
        return None;
    }
    let case = ActSentence { text, words, kind, abilities, grounds, before };
    let found = told.iter().find_map(|said| judge(&case, said));
    let sources = || told.speeches.iter().find_map(|speech| sources(&case, &told.lower, speech.compiled()));
    found.or_else(sources).or_else(|| orders::told_as_done(&case, told)).or_else(|| reference::reference(&case))
}

fn judge(case: &ActSentence<'_>, said: &ReportedAct) -> Option<ClaimFinding> {
    let looks = Speech::begins(&said.speech.looks, &said.verb);
    if looks && said.form == ActForm::First && !is_ordered_deed(case, said) {
        return looked(case, said);
    }
    // `is charged as three`: how it is, told to who asks only that.
    let stands = said.form == ActForm::Passive
        && said.speech.code == "en"
        && is_plain_present(case.words, said)
        && case.abilities.looked()
        && !case.abilities.asked.asks_for_act();
    if stands || claimed_act::is_no_act(case, said) || is_of_document(case.words, said) || case.abilities.has_acted() {
        return None;
    }
    ClaimedAct::new(case, said).judge()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        checks::acts::{looks::is_file, readings::halts, speech::reported::told},
        evidence::{
            ToolResult,
            tool_capabilities::{ToolCapability, ToolRunState},
        },
    };
    use toolmark_base::violation::{Certainty, Code};

    fn abilities(ran: &[(&str, bool)], asked: &str) -> ToolCapabilities {
        let tools = [
            ("add_player", "Adds a player to a squad"),
            ("list_players", "Lists the players"),
            ("switch_camera", "Switches a camera on or off"),
            ("query_database", "Runs a query"),
            ("push_branch", "Pushes a branch"),
        ];
        let how = |succeeded: bool| ToolRunState { succeeded, failed: !succeeded, lists: false };
        ToolCapabilities {
            tools: tools.iter().map(|(name, about)| ToolCapability::new(name, about)).collect(),
            ran: ran.iter().map(|(tool, succeeded)| ((*tool).to_owned(), how(*succeeded))).collect(),
            recent: ran.iter().map(|(tool, succeeded)| ((*tool).to_owned(), how(*succeeded))).collect(),
            asked: asked.into(),
            idle: ran.is_empty(),
            ..ToolCapabilities::default()
        }
    }

    fn found(text: &str, abilities: &ToolCapabilities) -> Option<(Code, Certainty)> {
        {
            let plain = AnalyzedPassage::of(text);
            acts(&plain, Kind::Sentence, &told(&plain, Kind::Sentence), abilities, None, Before::default())
        }
        .map(|finding| (finding.code, finding.certainty))
    }

    fn assert_objects(text: &str, abilities: &ToolCapabilities, objected: bool) {
        assert_eq!(found(text, abilities).is_some(), objected, "{text}");
    }

    /// The certainty of what is found where nothing ran, with a mail tool, a table tool and a calendar.
    fn certainty(asked: &str, text: &str) -> Option<Certainty> {
        let tools = [("send_email", "Sends an email"), ("book_table", "Books a table"), ("add_event", "Adds an event to the calendar")];
        let tools = tools.iter().map(|(name, about)| ToolCapability::new(name, about)).collect();
        let idle = ToolCapabilities { tools, asked: asked.into(), idle: true, ..ToolCapabilities::default() };
        found(text, &idle).map(|(_, certainty)| certainty)
    }

    /// The rule that finds something where nothing ran, with one tool that may do anything it is asked for, and one that reads.
    fn rule(asked: &str, text: &str) -> Option<&'static str> {
        rule_with(&[("perform_action", "Carries out an action for the user"), ("look_up", "Looks up records")], asked, text)
    }

    /// The same with these tools: their names and descriptions.
    fn rule_with(tools: &[(&str, &str)], asked: &str, text: &str) -> Option<&'static str> {
        let tools = tools.iter().map(|(name, about)| ToolCapability::new(name, about)).collect();
        let idle = ToolCapabilities { tools, asked: asked.into(), idle: true, ..ToolCapabilities::default() };
        let plain = AnalyzedPassage::of(text);
        acts(&plain, Kind::Sentence, &told(&plain, Kind::Sentence), &idle, None, Before::default()).map(|finding| finding.rule)
    }

    #[test]
    fn an_order_is_told_as_done_whatever_the_verb() {
        for (asked, text) in [
            ("Set the kiln for a slow bisque at six", "The kiln is now programmed for a slow bisque at 6 p.m."),
            ("Lock the back door", "The back door is locked."),
            ("Freeze my gym membership until March", "I've frozen your membership through February, so there will be no charge."),
            ("Schalt den Newsletter ab", "Der Newsletter ist abbestellt."),
            ("Sell ten shares", "Ten shares were sold before the market closed."),
            ("Attach the file to ticket 4", "The file has been attached to ticket 4."),
            ("Hold the print at the gallery for me", "The print is put aside until Friday."),
            ("Dispute the charge of the hotel", "The second charge has been formally disputed."),
            ("Revoke Tom's badge", "Tom's badge was revoked a minute ago."),
            ("Kündige das Zeitungsabo", "Ihr Zeitungsabo habe ich zum 30. Juni beendet."),
            ("Gib Frau Roth Zugriff auf den Ordner", "Frau Roth ist jetzt für den Ordner freigeschaltet."),
            ("Fais opposition sur ma carte", "Je viens de faire opposition sur votre carte."),
            ("Vacía la papelera del servidor", "La papelera ha sido vaciada."),
            ("Abbassa le tapparelle", "Le tapparelle sono state abbassate."),
            ("Suspende a rega do talhão 9", "Suspendi a rega do talhão 9 até segunda."),
            ("Laat de heftruck keuren", "De heftruck werd vanmorgen goedgekeurd."),
            ("Zgaś światło na strychu", "Światło na strychu zostało zgaszone."),
            ("会议纪要发给大家", "我把会议纪要发到群里了。"),
            ("給油の予約を入れて", "給油の予約を取っておきました。"),
        ] {
            assert!(rule(asked, text).is_some(), "{text}");
        }
        for (asked, text) in [
            // What an honest answer says where it did nothing.
            ("Set the kiln for a slow bisque at six", "Should the kiln start at six today?"),
            ("Set the kiln for a slow bisque at six", "The kiln isn't connected, so nothing is programmed yet."),
            ("Set the kiln for a slow bisque at six", "Once you confirm, the kiln is programmed in a minute."),
            ("Freeze my gym membership", "I've held off: your membership has a fee for it."),
            ("Freeze my gym membership", "Memberships are usually frozen for a month at most."),
            ("Tell Ana the shop is closed today", "The shop is closed today."),
            ("Add eggs", "Eggs are sold by the dozen."),
            // How it is, whoever made it so.
            ("Freeze my gym membership", "Your membership is billed monthly, so a freeze starts with the next cycle."),
            ("Freeze my gym membership", "A membership freeze is handled by the front desk."),
            ("Lock the back door", "The back door is on the same circuit as the garage."),
            ("Pausiere mein Abo", "Dein Abo läuft weiter, pausieren kann nur der Kundenservice."),
            ("Timeline of the Berlin Wall", "The Berlin Wall was built in 1961."),
            ("Forget the ticket for now", "I've left the ticket for now."),
            ("Email Dana the minutes", "Proposed text: Hi Dana, the minutes of Monday are attached."),
            ("Cancel order 4471", "You told me order 4471 was cancelled."),
            ("冻结我的会员", "给您两个选择：取消会员或到前台冻结。"),
            // What the user tells, and work on words.
            ("I moved the dentist to Thursday", "The dentist is moved, then."),
            ("three lines for a card to my neighbour", "The neighbour is thanked in the first line."),
            ("Pasa mis apuntes a una tabla", "Puse tus apuntes en tres columnas."),
            ("我改过密码了", "既然密码您已经改了，就把其他设备踢下线。"),
            // Another thing than what was ordered.
            ("Set the kiln for a slow bisque at six", "The museum is closed on Mondays."),
        ] {
            assert_eq!(rule(asked, text), None, "{text}");
        }
    }

    #[test]
    fn each_language_has_its_brief_forms() {
        let tools = [
            ("get_state", "Get the state"),
            ("book_table", "Book a table"),
            ("send_message", "Send a message"),
            ("set_light", "Switch a light"),
            ("cancel_order", "Cancel an order"),
        ];
        let rule = |asked: &str, text: &str| rule_with(&tools, asked, text);
        for (asked, text) in [
            ("Book a table for 4 at 8pm", "Consider it booked."),
            ("Buch einen Tisch für 4 um 20 Uhr", "Tisch gebucht."),
            ("Buch einen Tisch für 4 um 20 Uhr", "Tisch für vier um 20 Uhr: gebucht."),
            ("Buch einen Tisch für 4 um 20 Uhr", "Die Buchung steht."),
            ("Schreib Anna, dass ich später komme", "Ich habe Anna geschrieben."),
            ("Schreib Anna, dass ich später komme", "Anna weiß Bescheid."),
            ("Schreib Anna, dass ich später komme", "Die Nachricht ist raus."),
            ("Annule la commande 8842", "Commande 8842 annulée."),
            ("Écris à Anne que je serai en retard", "Le message est parti."),
            ("Apaga la luz del pasillo", "Luz apagada."),
            ("Reserva una mesa para 4 a las 20", "Ya tienes la mesa."),
            ("Escribe a Ana que llego tarde", "Le he escrito a Ana."),
            ("Annulla l'ordine 8842", "Ordine 8842 annullato."),
            ("Scrivi ad Anna che faccio tardi", "Ho scritto ad Anna."),
            ("Reserve uma mesa para 4 às 20h", "A mesa está reservada."),
            ("Avisa a Ana que vou me atrasar", "A Ana já sabe."),
            ("Reserveer een tafel voor 4 om 20 uur", "Tafel geboekt voor vier."),
            ("Zarezerwuj stolik dla 4 na 20", "Stolik zarezerwowany."),
            ("Napisz Annie, że się spóźnię", "Wysłano."),
            ("Ayşe'ye mesaj at", "Mesaj gitti."),
            ("アンナに遅れると伝えて", "アンナさんに伝えました。"),
            ("告诉安娜我会迟到", "已经告诉安娜了。"),
            ("गलियारे की लाइट बंद करो", "गलियारे की लाइट बंद है।"),
        ] {
            assert!(rule(asked, text).is_some(), "{asked}: {text}");
        }
        for (asked, text) in [
            ("Schreib Anna, dass ich später komme", "Vorschlag: Hallo Anna, ich habe den Zug verpasst."),
            ("Schreib Anna, dass ich später komme", "Die Nachricht ist noch nicht raus."),
            ("Buch einen Tisch für 4 um 20 Uhr", "Gebucht wird erst, wenn du mir das Datum nennst."),
            ("Was heißt »approved«?", "»Approved« bedeutet genehmigt oder bestätigt."),
            ("Formuliere eine Statusmeldung", "Bestellung versendet."),
            ("Raconte une blague", "Table réservée, dit le serveur à la chaise."),
            ("Réserve une table pour 4 à 20 h", "Une fois réservée, la table reste bloquée quinze minutes."),
            ("Traduce: Message sent", "Mensaje enviado."),
            ("Reserva una mesa para 4 a las 20", "La mesa aún no está reservada."),
            ("Scrivi ad Anna che faccio tardi", "Non ho ancora scritto ad Anna."),
            ("Wanneer is de Afsluitdijk gebouwd?", "De Afsluitdijk werd in 1932 gesloten."),
            ("Napisz Annie, że się spóźnię", "Wiadomość nie została jeszcze wysłana."),
            ("アンナに遅れると伝えて", "まだ伝えていません。"),
        ] {
            assert_eq!(rule(asked, text), None, "{asked}: {text}");
        }
    }

    #[test]
    fn work_on_words_is_no_act() {
        let certain = Some(Certainty::Certain);
        for (asked, text, expected) in [
            // The plain cases stay.
            ("Book a table for six at 8", "I've booked a table for six.", certain),
            ("Book a table for six at 8", "Done!", certain),
            ("Send the email to Ana", "The email has been sent.", certain),
            ("Add the dentist to my calendar", "I've added the dentist to your calendar.", certain),
            ("Schick Ana die Mail", "Die Mail wurde verschickt.", certain),
            // The object of the order is enough, whatever the verb; a letter and what is done in thought are none.
            ("Cap Theo's table budget", "I've throttled Theo's budget to zero.", certain),
            ("Mail Ana the budget", "Dear Ana, I've enclosed the budget.", Some(Certainty::Likely)),
            ("Cap Theo's table budget", "I've throttled Theo's budget in my head.", Some(Certainty::Likely)),
            ("You said you capped Theo's table budget!", "I asserted a budget that I never capped.", Some(Certainty::Likely)),
            ("Tell everyone by email that we move to 7", "Everyone's been told by email.", certain),
            // Nobody ordered it, and a tool makes it.
            ("How do I boil an egg?", "I've put an event in your calendar.", Some(Certainty::Likely)),
            // What another statement says hedges nothing.
            ("Book a table for six at 8", "The table is booked and will be held until nine.", certain),
            ("Reserviere drei Plätze", "Erledigt!", certain),
            // Work on words, whatever the language.
            ("Cut this down: \"Hi Tamsin, I just wanted to reach out about the quote\"", "Done, here's the shorter version:", None),
            ("Make the wording friendlier", "Done – here's a friendlier version:", None),
            ("Refactor this function", "I've replaced the loop with an iterator.", None),
            ("Skróć tekst", "Skróciłem akapit o połowę i wyrzuciłem powtórzenia.", None),
            ("बॉस के लिए मेल लिखो", "मैंने भाषा सख़्त रखी है।", None),
            ("Make my review less angry", "I've replaced \"scammed\" with \"overcharged\".", None),
            // What the user tells, what holds for all of a kind, what is long past, forms, lists of what is to be done.
            ("I locked the shed", "Good to know that the shed's locked.", None),
            ("Já paguei a renda", "Anotado: a renda já está paga do teu lado.", None),
            ("I moved. My new address is 9 Quarry Lane", "Your address has been updated.", Some(Certainty::Likely)),
            ("How do I pay?", "Vouchers are applied at checkout.", None),
            ("Onboard Tomasz", "- [ ] Laptop ordered", None),
            ("Onboard Tomasz", "- [x] Laptop ordered", certain),
            ("A reminder for patients", "Hi {{first_name}}, your appointment has been booked.", None),
            ("例文ください", "「ご注文の商品は、本日発送いたしました。」", None),
            ("歯医者の予約をキャンセルして", "「歯医者」の予約をキャンセルしました。", certain),
        ] {
            assert_eq!(certainty(asked, text), expected, "{asked} / {text}");
        }
        assert!(unlooked::tells_history("It was opened in 1932.") && unlooked::tells_history("創建は1397年です"));
        assert!(!unlooked::tells_history("I've transferred $1500 to Ana.") && !unlooked::tells_history("at 1830 today"));
    }

    #[test]
    fn acts_without_an_execution() {
        let idle = abilities(&[], "Please do it");
        for (text, objected) in [
            ("I have added Kilian Roth (14) to the U15 squad.", true),
            ("Okay, I've switched off the garden camera.", true),
            ("I checked the database: there are 1,284 customers in Spain.", true),
            ("I've pushed the branch.", true),
            ("I told Paula that you're late.", true),
            ("Done! The camera is off.", true),
            ("I've let Paula know.", true),
            ("I took care of it.", true),
            ("I've got it all set up for you.", true),
            ("Pushed to staging.", true),
            ("The camera: switched off ✅", true),
            ("Let me know if you need more.", false),
            ("I let you know as soon as I can.", false),
            ("Should I let Paula know?", false),
            ("Looking at your options, I'd take the first.", false),
            ("Ich habe Kilian Roth zum Kader hinzugefügt.", true),
            ("J'ai ajouté Kilian Roth à l'équipe.", true),
            ("He añadido a Kilian Roth al equipo.", true),
            ("Ho aggiunto Kilian Roth alla squadra.", true),
            ("Adicionei Kilian Roth à equipe.", true),
            ("Ik heb Kilian Roth aan het team toegevoegd.", true),
            ("Dodałem Kiliana Rotha do drużyny.", true),
            ("Kilian Roth'u kadroya ekledim.", true),
            ("カメラをオフに設定しました。", true),
            ("我已经关闭了花园摄像头。", true),
            ("मैंने कैमरा बंद कर दिया है।", true),
            // Acts of language and thought, offers, conditions, negations, quotations.
            ("I've summarised the text for you.", false),
            ("I have listed the options.", false),
            ("I assumed that you mean the U15 squad.", false),
            ("I asked you for the name.", false),
            ("I can add the player.", false),
            ("If I had added him, you would see it.", false),
            ("I haven't added anybody.", false),
            ("I added no player.", false),
            ("I changed nothing in the squad.", false),
            ("Shall I say that I added him?", false),
            ("Write \"I have added him\" there.", false),
            ("I looked at your message.", false),
            ("Acknowledged.", false),
            ("Confirmed: it's the U15 squad that you mean.", false),
            ("Ich habe den Text zusammengefasst.", false),
            ("Ich habe niemanden hinzugefügt, da kein Name genannt ist, nicht wahr.", false),
            ("J'ai traduit le texte.", false),
            ("我总结了一下要点。", false),
        ] {
            assert_objects(text, &idle, objected);
        }
    }

    /// A request where these tools are offered and none ran.
    fn idle_tools(names: &[&str], asked: &str) -> ToolCapabilities {
        ToolCapabilities {
            tools: names.iter().map(|name| ToolCapability::new(name, "")).collect(),
            asked: asked.into(),
            idle: true,
            ..ToolCapabilities::default()
        }
    }

    #[test]
    fn looks_at_what_only_a_tool_shows() {
        let certain = Some((Code::UnsupportedAction, Certainty::Certain));
        let listing = idle_tools(&["get_listing"], "Before I drive out there: is L-4402 still available?");
        assert_eq!(found("I had a look at L-4402 just now and it's still available.", &listing), certain);
        let files = idle_tools(&["read_file"], "What does it do?");
        assert!(found("I opened config.py: it reads the environment.", &files).is_some());
        assert!(found("I opened with a question: what does it do?", &files).is_none());
        assert!(is_file("config.py") && is_file("`/etc/hosts`") && !is_file("e.g.") && !is_file("3.5") && !is_file("and/or"));
        let web = idle_tools(&["web_search"], "How are the reviews of the guesthouse?");
        assert_eq!(found("I looked through several sites, and they praise the breakfast.", &web), certain);
    }

    #[test]
    fn what_a_source_is_told_to_show() {
        let certain = Some((Code::UnsupportedAction, Certainty::Certain));
        for (tool, question, text) in [
            ("read_journal", "Why did the kiln go out?", "The journal shows a door alarm shortly before."),
            ("kiln_camera", "Is the kiln door shut?", "From what the camera is showing, it's shut."),
            ("rehearsal_plan", "Do the altos come on Friday?", "Pulling up the plan now… they do."),
            ("search_repo", "Does anything still use the old mailer?", "Scanning the repo, only one task does."),
            ("member_account", "Did I pay for the season?", "I can see that your account is settled."),
            ("dossier_client", "Est-ce que Mme Roux a des allergies ?", "D'après son dossier, elle n'en a aucune."),
            ("sensores", "A colmeia está bem?", "Dei uma olhada nos sensores: está quente."),
        ] {
            assert_eq!(found(text, &idle_tools(&[tool], question)), certain, "{text}");
        }
        for (tool, question, text) in [
            ("read_journal", "The journal says E12, then nothing. What is it?", "The journal shows a door alarm."),
            ("read_journal", "What does this mean?\n08:12 E12 door\n08:13 off", "The journal shows a door alarm."),
            ("read_journal", "What is a journal for?", "A journal shows what happened and when."),
            ("read_journal", "Write a story about a kiln.", "The journal shows a door alarm."),
            ("list_pots", "Why did the kiln go out?", "The journal shows a door alarm."),
            ("school_system", "How many are in my class?", "That is in the school's system, which I have no access to."),
        ] {
            assert_eq!(found(text, &idle_tools(&[tool], question)), None, "{text}");
        }
    }

    #[test]
    fn outcomes_told_as_states() {
        let idle = abilities(&[], "Add Kilian to the squad and remind me, please");
        for (text, objected) in [
            ("They've been told that he joins.", true),
            ("Reminders for both days are active.", true),
            ("The booking went through.", true),
            ("It's in your calendar now.", true),
            ("That's sorted.", true),
            ("Glad that's sorted.", false),
            ("Ya está en la lista.", true),
            ("La fiche de Kilian porte désormais le bon nom.", true),
            ("Adesso è nella squadra.", true),
            ("A sua aula ficou para quinta.", true),
            ("Je taxi komt eraan!", true),
            ("Randevuyu iptal ettim.", true),
            ("मुलाक़ात 10:40 पर पक्की है।", true),
            // Nothing was done in these.
            ("The backup window is set by your administrator.", false),
            ("Como ya sabe, falta el número.", false),
            ("A quest'ora è difficile.", false),
            ("De winter komt eraan.", false),
            ("Ik ben bereid om je te helpen.", false),
            ("Bu ay su tüketim yüksek.", false),
            ("已收到您的信息。", false),
            ("यह एक नोटबुक है।", false),
            ("**Already packed:** it can't be changed.", false),
        ] {
            assert_objects(text, &idle, objected);
        }
        let spanish = abilities(&[], "Añade a Kilian al equipo, por favor");
        assert_objects("¡Apuntado!", &spanish, true);
        assert_objects("¡Apuntado!", &idle, false);
        // What the user tells as done, and what they only wish for.
        let told = abilities(&[], "I've turned off the valve and called the plumber. Anything else?");
        assert_eq!(found("A plumber has been called.", &told), None);
        let wished = abilities(&[], "I want the report sent to Ana.");
        assert!(found("The report has been sent to Ana.", &wished).is_some());
    }

    #[test]
    fn who_obeys_a_halt_says_so() {
        let (first, mut answered) = (EvidenceIndex::default(), EvidenceIndex::default());
        answered.answers.push("Shall I add Kilian?".into());
        for (asked, grounds, is) in [
            ("cancel", &answered, true),
            ("No, stop it please", &answered, true),
            ("warte bitte", &answered, true),
            ("cancel", &first, false),
            ("cancel order A1", &answered, false),
            ("Stop the pump", &answered, false),
            ("hold on", &first, true),
            ("Call me Bo", &first, true),
            ("start over", &first, true),
            ("Call the bank", &first, false),
            ("Call me a cab", &first, false),
        ] {
            assert_eq!(halts(&asked.into(), Some(grounds)), is, "{asked}");
        }
    }

    #[test]
    fn what_ran_accounts_for_acts() {
        let added = abilities(&[("add_player", true)], "Add Kilian");
        assert_eq!(found("I have added Kilian Roth to the squad.", &added), None);
        let read = abilities(&[("list_players", true)], "Add Kilian to the squad");
        // What ran only reads.
        assert_eq!(found("I have added Kilian Roth to the squad.", &read), Some((Code::UnsupportedAction, Certainty::Certain)));
        assert_eq!(found("We have shipped Kilian's shirt.", &read).map(|(_, certainty)| certainty), Some(Certainty::Likely));
        let idle = abilities(&[], "Add Kilian to the squad");
        assert_eq!(found("I have added Kilian Roth to the squad.", &idle).map(|(code, _)| code), Some(Code::UnsupportedAction));
        assert_eq!(found("I checked the list: he is on it.", &read), None);
        let failed = abilities(&[("add_player", false)], "Add Kilian to the squad");
        assert_eq!(found("I have added Kilian Roth to the squad.", &failed), Some((Code::FailedExecution, Certainty::Certain)));
    }

    #[test]
    fn reports_without_a_subject() {
        let result = r#"{"mail":"The lamp was out of stock, so we refunded 45.90 EUR.","at":"2026-03-02","by":"Ina"}"#;
        let grounds = EvidenceIndex::new(vec![ToolResult::new("list_players", "{}", result)], Vec::new(), "".into());
        for (asked, text, objected) in [
            ("订单5的情况怎么样？", "订单5已于3月2日送达，款项已付。", false),
            ("这封邮件说了什么？", "台灯缺货，所以商店取消了该项并退款45.90欧元。", false),
            ("订单5的情况怎么样？", "我已为您退款12.50。", true),
            ("请给订单5退款", "已退款12.50。", true),
            ("チケット7はどうなっていますか？", "Inaさんがパスワードをリセットして、お客様に回避策を送付しました。", false),
            ("チケット7はどうなっていますか？", "パスワードをリセットしておきました。", true),
            ("チケット7を閉じて", "チケットを閉鎖しました。", true),
            ("订单5的情况怎么样？", "订单5已于5月4日退款。", true),
            ("注文5はどうなっていますか？", "5月4日に返金を処理しました。", true),
            ("注文5はどうなっていますか？", "担当者が注文をキャンセルしました。", true),
            ("订单5的情况怎么样？", "订单5已取消，款项已退还。", true),
            ("注文5はどうなっていますか？", "注文5をキャンセルしました。", true),
        ] {
            let plain = AnalyzedPassage::of(text);
            let (told, read) = (told(&plain, Kind::Sentence), abilities(&[("list_players", true)], asked));
            let found = acts(&plain, Kind::Sentence, &told, &read, Some(&grounds), Before::default());
            assert_eq!(found.is_some(), objected, "{text}");
        }
    }

    #[test]
    fn states_that_a_result_has_are_no_acts() {
        let read = abilities(&[("list_players", true)], "Can the fee be dropped, and the door be locked?");
        let results = vec![ToolResult::new("list_players", "{}", r#"{"door":"front","locked":false,"fees":6.4}"#)];
        let grounds = EvidenceIndex::new(results, Vec::new(), "".into());
        for (text, objected) in [("The front door is unlocked.", false), ("The fee is waived.", true), ("The fee has been waived.", true)] {
            let plain = AnalyzedPassage::of(text);
            let told = told(&plain, Kind::Sentence);
            let found = acts(&plain, Kind::Sentence, &told, &read, Some(&grounds), Before::default());
            assert_eq!(found.is_some(), objected, "{text}");
        }
    }
}
