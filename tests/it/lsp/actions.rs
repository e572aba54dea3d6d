//! Code actions, from the request to the edited text.

use gpulint_testing::FIXABLE_POOL;
use serde_json::{Value, json};

use super::client::{Client, Setup};
use crate::support::Folder;

fn titled(actions: &[Value], title: &str) -> Value {
    let is_it = |action: &&Value| action["title"] == title;
    actions.iter().find(is_it).unwrap_or_else(|| panic!("{title}: {actions:#?}")).clone()
}

/// Before 1.15 a missing `consolidateAfter` is an error with a safe fix.
const OLDER_KARPENTER: &str = "platform: {karpenter: '1.14'}\n";

#[test]
fn fixes_are_made_and_suppressions_written() {
    for encodings in [&["utf-16"][..], &["utf-8", "utf-16"], &["utf-32"]] {
        let folder = Folder::new().with("gpulint.yaml", OLDER_KARPENTER).with("pools.yaml", FIXABLE_POOL);
        let mut client = Client::start(&folder.0, Setup::push().encodings(encodings));
        client.open("pools.yaml");
        client.settle();
        let fix = titled(&client.actions("pools.yaml", "On-Demand", None), "write `on-demand`");
        assert_eq!((&fix["isPreferred"], &fix["kind"]), (&json!(true), &json!("quickfix")));
        assert_eq!(fix["diagnostics"][0]["code"], "capacity-type-invalid");
        client.perform(&fix);
        let fixed = FIXABLE_POOL.replace("On-Demand", "on-demand");
        assert_eq!(client.text("pools.yaml"), fixed);
        client.settle();
        assert_eq!(client.actions("pools.yaml", "on-demand", Some("quickfix")), [Value::Null; 0]);
        let all = client.actions("pools.yaml", "disruption", None);
        client.perform(&titled(&all, "suppress consolidate-after-missing here, with a reason"));
        let comment = "  # gpulint: allow[consolidate-after-missing] TODO: say why\n";
        let allowed = fixed.replace("  disruption", &format!("{comment}  disruption"));
        assert_eq!(client.text("pools.yaml"), allowed);
        let shown = client.heard("window/showDocument");
        assert_eq!(shown[0]["uri"], client.uri("pools.yaml"));
        assert_eq!(shown[0]["selection"]["start"], client.place("pools.yaml", "TODO"));
        client.end();
    }
}

#[test]
fn all_safe_fixes_are_made_in_rounds() {
    let folder = Folder::new().with("gpulint.yaml", OLDER_KARPENTER).with("pools.yaml", FIXABLE_POOL);
    let mut client = Client::start(&folder.0, Setup::push());
    client.open("pools.yaml");
    client.settle();
    let before = client.diagnostics("pools.yaml");
    let all = client.actions("pools.yaml", "metadata", Some("source.fixAll"));
    assert_eq!(all.len(), 1, "{all:#?}");
    assert!(all[0]["edit"].is_null(), "{all:#?}");
    let resolved = client.request("codeAction/resolve", all[0].clone());
    client.settle();
    // A text that was only tried does not change the diagnostics.
    assert_eq!(client.diagnostics("pools.yaml"), before);
    client.perform(&resolved);
    let fixed = FIXABLE_POOL.replace("On-Demand", "on-demand") + "    consolidateAfter: 0s\n";
    assert_eq!(client.text("pools.yaml"), fixed);
    assert_eq!(client.actions("pools.yaml", "metadata", Some("source.fixAll")), [Value::Null; 0]);
    client.end();
}

#[test]
fn the_manual_is_opened() {
    let folder = Folder::new().with("gpulint.yaml", OLDER_KARPENTER).with("pools.yaml", FIXABLE_POOL);
    let mut client = Client::start(&folder.0, Setup::push());
    client.open("pools.yaml");
    client.settle();
    let all = client.actions("pools.yaml", "On-Demand", None);
    client.perform(&titled(&all, "open the manual on capacity-type-invalid"));
    let shown = client.heard("window/showDocument");
    assert_eq!(shown[0]["uri"], "https://gpulint.dev/rules/capacity-type-invalid.html");
    assert_eq!(shown[0]["external"], true);
    client.end();
}

#[test]
fn a_configuration_is_checked_while_it_is_edited() {
    let folder = Folder::new()
        .with("gpulint.yaml", OLDER_KARPENTER)
        .with("pools.yaml", FIXABLE_POOL)
        .with("gpulint.yaml", "fail-on: error\n");
    let mut client = Client::start(&folder.0, Setup::push());
    client.open("gpulint.yaml");
    client.settle();
    assert_eq!(client.diagnostics("gpulint.yaml"), [Value::Null; 0]);
    client.set("gpulint.yaml", "fail-on: error\nrules: {capacity-type-invalit: off}\n");
    client.settle();
    let found = client.diagnostics("gpulint.yaml");
    assert_eq!(found.len(), 1, "{found:#?}");
    assert_eq!(found[0]["range"]["start"], client.place("gpulint.yaml", "capacity-type-invalit"));
    assert_eq!(found[0]["code"], "configuration");
    let meant = titled(&client.actions("gpulint.yaml", "invalit", None), "write `capacity-type-invalid`");
    client.perform(&meant);
    client.settle();
    assert_eq!(client.diagnostics("gpulint.yaml"), [Value::Null; 0]);
    // The saved text is checked.
    assert!(client.rules("pools.yaml").contains(&"capacity-type-invalid".to_owned()));
    client.save("gpulint.yaml");
    client.settle();
    assert!(!client.rules("pools.yaml").contains(&"capacity-type-invalid".to_owned()));
    client.end();
}

#[test]
fn a_broken_configuration_on_disk_says_so() {
    let folder = Folder::new()
        .with("a/pools.yaml", FIXABLE_POOL)
        .with("a/gpulint.yaml", "extends: ../base.yaml\n")
        .with("base.yaml", "rulez: {}\n");
    let mut client = Client::start(&folder.0, Setup::push());
    client.settle();
    let found = client.diagnostics("a/gpulint.yaml");
    assert_eq!(found.len(), 1, "{found:#?}");
    assert_eq!(found[0]["message"], "base.yaml has 1 error");
    assert_eq!(found[0]["relatedInformation"][0]["location"]["uri"], client.uri("base.yaml"));
    assert_eq!(client.diagnostics("base.yaml")[0]["message"], "unknown key `rulez`; did you mean `rules`?");
    client.on_disk("base.yaml", "rules: {capacity-type-invalid: off}\n");
    client.settle();
    assert_eq!(client.diagnostics("a/gpulint.yaml"), [Value::Null; 0]);
    assert!(!client.rules("a/pools.yaml").contains(&"capacity-type-invalid".to_owned()));
    client.end();
}
