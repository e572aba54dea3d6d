//! What a change does, in an editor: code lenses at what differs from the last commit, and the plan as a page.

use serde_json::{Value, json};

use super::client::{Client, Setup};
use super::session::infra;
use crate::support::Folder;

const TAINT: &str = "value: \"true\", effect: NoSchedule";

fn committed() -> Folder {
    let folder = infra();
    folder.git(&["init", "-q", "-b", "main"]);
    folder.commit("first");
    folder
}

/// The lenses of a file: line, counted from one, and title.
fn lenses(client: &mut Client, path: &str) -> Vec<String> {
    let uri = client.uri(path);
    let answer = client.request("textDocument/codeLens", json!({"textDocument": {"uri": uri}}));
    let lens = |lens: &Value| {
        let line = lens["range"]["start"]["line"].as_u64().unwrap() + 1;
        assert_eq!(lens["command"]["command"], "gpulint.plan");
        assert_eq!(lens["command"]["arguments"], json!([uri]));
        format!("{line} {}", lens["command"]["title"].as_str().unwrap())
    };
    answer.as_array().unwrap().iter().map(lens).collect()
}

#[test]
fn a_lens_says_which_nodes_an_edit_replaces() {
    let folder = committed();
    let mut client = Client::start(&folder.0, Setup::push());
    client.open("pools.yaml");
    assert_eq!(lenses(&mut client, "pools.yaml"), [""; 0], "nothing differs");

    client.replace("pools.yaml", TAINT, "value: \"yes\", effect: NoSchedule");
    let replaced = ["3 all nodes are replaced, by `spec.template.spec.taints`"];
    assert_eq!(lenses(&mut client, "pools.yaml"), replaced, "a text that is not saved");
    client.replace("pools.yaml", "value: \"yes\"", "value: \"true\"");
    assert_eq!(lenses(&mut client, "pools.yaml"), [""; 0], "the edit is taken back");

    client.replace("pools.yaml", "nvidia.com/gpu: 16", "nvidia.com/gpu: 8");
    let limit = "3 no node is replaced, by `spec.limits[nvidia.com/gpu]`";
    assert_eq!(lenses(&mut client, "pools.yaml"), [limit]);
    // A new commit is what counts from then on.
    std::fs::write(folder.0.join("pools.yaml"), client.text("pools.yaml")).unwrap();
    folder.commit("second");
    assert_eq!(lenses(&mut client, "pools.yaml"), [""; 0]);

    client.open("class.yaml");
    client.replace("class.yaml", "role: nodes", "role: others");
    let class = lenses(&mut client, "class.yaml");
    assert_eq!(class, ["3 NodePool `gpu`: all nodes are replaced, by `spec.role`"]);
    client.open("other.yaml");
    client.replace("other.yaml", "role: nodes", "role: others");
    let class = lenses(&mut client, "other.yaml");
    assert_eq!(
        class,
        ["3 no NodePool here uses it; of those that do, all nodes are replaced, by `spec.role`"]
    );
    client.end();
}

#[test]
fn without_a_commit_there_is_no_lens() {
    let folder = infra();
    let mut client = Client::start(&folder.0, Setup::push());
    client.open("pools.yaml");
    client.replace("pools.yaml", TAINT, "value: \"yes\", effect: NoSchedule");
    assert_eq!(lenses(&mut client, "pools.yaml"), [""; 0]);
    client.request("workspace/executeCommand", json!({"command": "gpulint.plan", "arguments": []}));
    let shown = client.heard("window/showMessage");
    assert!(shown[0]["message"].as_str().unwrap().contains("in no git repository"), "{shown:?}");
    client.end();
}

/// The page is that of `gpulint plan HEAD`, with the texts of the editor.
#[test]
fn the_command_shows_the_whole_plan() {
    let folder = committed();
    let mut setup = Setup::push();
    setup.capabilities["window"]["showDocument"] = Value::Null;
    let mut client = Client::start(&folder.0, setup);
    client.open("pools.yaml");
    client.replace("pools.yaml", TAINT, "value: \"yes\", effect: NoSchedule");
    let uri = client.uri("pools.yaml");
    let arguments = json!({"command": "gpulint.plan", "arguments": [uri]});
    let page = client.request("workspace/executeCommand", arguments);
    let page = page.as_str().expect("a client that shows no documents gets the text").to_owned();
    client.end();
    assert!(page.contains("all nodes are replaced"), "{page}");
    folder.run(&["plan", "HEAD", "--format", "markdown"]).prints("Nothing changes");

    // The same text, saved.
    let mut client = Client::start(&folder.0, Setup::push());
    client.open("pools.yaml");
    client.replace("pools.yaml", TAINT, "value: \"yes\", effect: NoSchedule");
    std::fs::write(folder.0.join("pools.yaml"), client.text("pools.yaml")).unwrap();
    assert_eq!(folder.run(&["plan", "HEAD", "--format", "markdown"]).out, page);

    client.request("workspace/executeCommand", json!({"command": "gpulint.plan"}));
    let shown = client.heard("window/showDocument");
    let file = shown[0]["uri"].as_str().unwrap().strip_prefix("file://").unwrap().replace("%20", " ");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), page);
    client.end();
    assert!(!std::path::Path::new(&file).exists(), "it is removed when the server ends");
}
