//! Completion, definitions and references, as an editor asks for them.

use serde_json::Value;

use super::client::{Client, Setup};
use crate::support::Folder;

const CLASS: &str =
    "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata:\n  name: gpu-class\nspec:\n  role: a\n";
const POOL: &str = "apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: 日本😀
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu-class}
      requirements:
        - key: kubernetes.io/arch # 😀
          operator: In
          values: [amd64]
";

fn labels(items: &[Value]) -> Vec<&str> {
    items.iter().map(|item| item["label"].as_str().unwrap()).collect()
}

#[test]
fn what_is_typed_is_completed() {
    let folder =
        Folder::new().with("class.yaml", CLASS).with("pool.yaml", POOL).with("gpulint.yaml", "rules: {}\n");
    let mut client = Client::start(&folder.0, Setup::push());
    client.open("pool.yaml");
    // While the document does not parse:
    client.replace("pool.yaml", "[amd64]", "[amd64, ");
    assert_eq!(labels(&client.complete("pool.yaml", "values: [amd64, |")), ["arm64"]);
    client.replace("pool.yaml", "[amd64, ", "[amd64]");
    client.replace("pool.yaml", "operator: In", "operator: \"\"");
    let operators = client.complete("pool.yaml", "operator: \"|\"");
    assert_eq!(labels(&operators)[..2], ["In", "NotIn"]);
    let edit = &operators[0]["textEdit"];
    assert_eq!(edit["newText"], "In");
    assert_eq!(edit["range"]["start"], edit["range"]["end"]);
    client.replace("pool.yaml", "name: gpu-class", "name: ");
    assert_eq!(labels(&client.complete("pool.yaml", "name: |}")), ["gpu-class"]);
    // Positions are counted in the units of the protocol.
    let keys = client.complete("pool.yaml", "kubernetes.io/arch| # 😀");
    let zone = keys.iter().find(|item| item["label"] == "topology.kubernetes.io/zone").unwrap();
    assert_eq!(zone["textEdit"]["range"]["start"]["character"], 15);
    assert!(zone["detail"].as_str().unwrap().contains("availability zone"));

    client.open("gpulint.yaml");
    client.replace("gpulint.yaml", "{}", "{gpu-pool}");
    assert!(labels(&client.complete("gpulint.yaml", "gpu-pool|")).contains(&"gpu-pool-untainted"));
    client.end();
}

#[test]
fn names_and_objects_lead_to_each_other() {
    let folder = Folder::new().with("class.yaml", CLASS).with("pool.yaml", POOL);
    let mut client = Client::start(&folder.0, Setup::push());
    client.open("pool.yaml");
    client.open("class.yaml");
    let definition = client.locations("textDocument/definition", "pool.yaml", "name: gpu-|class");
    assert_eq!(definition, ["class.yaml:4"]);
    let references = client.locations("textDocument/references", "class.yaml", "name: gpu|-class");
    assert_eq!(references, ["class.yaml:4", "pool.yaml:8"]);
    // A file that changes, and one that is deleted.
    client.replace("class.yaml", "gpu-class", "other-class");
    assert!(client.locations("textDocument/definition", "pool.yaml", "name: gpu-|class").is_empty());
    client.end();
}
