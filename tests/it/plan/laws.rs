//! What holds for every change.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::{Folder, Run, run_in};

fn stories() -> Vec<PathBuf> {
    let all = std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/plan")).unwrap();
    let paths = all.map(|entry| entry.unwrap().path()).filter(|path| path.join("before").is_dir());
    // A chart needs helm.
    paths.filter(|path| !path.ends_with("chart-values")).collect()
}

fn plan(folder: &Path, before: &str, after: &str, format: &str) -> Run {
    run_in(folder, &["plan", "--before", before, "--after", after, "--format", format], "")
}

pub(super) fn json(folder: &Path, before: &str, after: &str) -> Value {
    plan(folder, before, after, "json").json_of("plan")
}

#[test]
fn nothing_is_said_of_two_equal_sides() {
    for story in stories() {
        for side in ["before", "after"] {
            plan(&story, side, side, "text").exits(0).prints("nothing changes");
            let value = json(&story, side, side);
            assert_eq!(value["sets"].as_array().unwrap().len(), 0, "{}", story.display());
        }
    }
}

/// The opposite of a change to the place of pods.
fn opposite(turn: &str) -> &str {
    match turn {
        "fits-nowhere" => "fits-again",
        "fits-again" => "fits-nowhere",
        "uncertain" => "certain",
        "certain" => "uncertain",
        "loses-pool" => "gains-pool",
        "gains-pool" => "loses-pool",
        "new" => "gone",
        "gone" => "new",
        same => same,
    }
}

fn texts(list: &Value, of: impl Fn(&Value) -> String) -> BTreeSet<String> {
    list.as_array().unwrap().iter().map(of).collect()
}

#[test]
fn the_way_back_mirrors_the_way_there() {
    for story in stories() {
        let (there, back) = (json(&story, "before", "after"), json(&story, "after", "before"));
        let print = |finding: &Value| finding["fingerprint"].to_string();
        let shown = story.display();
        assert_eq!(
            texts(&there["findings"]["new"], print),
            texts(&back["findings"]["gone"], print),
            "{shown}"
        );
        assert_eq!(
            texts(&there["findings"]["gone"], print),
            texts(&back["findings"]["new"], print),
            "{shown}"
        );
        assert_eq!(there["findings"]["still"], back["findings"]["still"], "{shown}");
        let sets = |value: &Value| value["sets"].as_array().unwrap().clone();
        assert_eq!(sets(&there).len(), sets(&back).len(), "{shown}");
        for one in sets(&there) {
            let other = sets(&back).into_iter().find(|other| other["name"] == one["name"]).unwrap();
            let turns = |set: &Value, mirrored: bool| {
                texts(&set["workloads"], |workload| {
                    let changes = texts(&workload["changes"], |turn| {
                        let turn = turn.as_str().unwrap();
                        (if mirrored { opposite(turn) } else { turn }).to_owned()
                    });
                    format!("{} {changes:?}", workload["name"])
                })
            };
            assert_eq!(turns(&one, false), turns(&other, true), "{shown}");
            let money = |set: &Value, side: &str| set["money"][side].clone();
            assert_eq!(money(&one, "before"), money(&other, "after"), "{shown}");
            assert_eq!(money(&one, "after"), money(&other, "before"), "{shown}");
            // The fields that differ are the same both ways, whatever each does to nodes.
            let fields = |set: &Value| {
                let pools = set["pools"].as_array().unwrap().iter();
                let edits = pools.flat_map(|pool| pool["edits"].as_array().unwrap().clone());
                edits.map(|edit| edit["field"].to_string()).collect::<BTreeSet<_>>()
            };
            assert_eq!(fields(&one), fields(&other), "{shown}");
        }
    }
}

#[test]
fn pods_and_dollars_are_those_of_the_capacity() {
    for story in stories() {
        let value = json(&story, "before", "after");
        for side in ["before", "after"] {
            let run = run_in(&story.join(side), &["pools", "--capacity", "--format", "json"], "");
            let Ok(pools) = serde_json::from_str::<Value>(&run.out) else { continue };
            for set in value["sets"].as_array().unwrap() {
                if set["money"].is_null() {
                    continue;
                }
                let all = pools["capacity"].as_array().unwrap();
                let of_set = all.iter().find(|one| one["set"] == set["name"] || all.len() == 1);
                for load in ["floor", "ceiling"] {
                    let (ours, theirs) = (&set["money"][side][load], &of_set.unwrap()[load]);
                    for member in ["pods", "dollarsAnHour", "verdict", "nodes", "pools"] {
                        assert_eq!(
                            ours[member],
                            theirs[member],
                            "{} {side} {load} {member}",
                            story.display()
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn a_finding_is_new_or_gone_or_still_there() {
    for story in stories() {
        let value = json(&story, "before", "after");
        let print = |finding: &Value| finding["fingerprint"].to_string();
        let (new, gone) = (texts(&value["findings"]["new"], print), texts(&value["findings"]["gone"], print));
        assert!(new.is_disjoint(&gone), "{}", story.display());
        let checked = |side: &str| {
            let run = run_in(&story.join(side), &["check", "--format", "json"], "");
            run.json()["diagnostics"].as_array().unwrap().len()
        };
        let still = usize::try_from(value["findings"]["still"].as_u64().unwrap()).unwrap();
        assert_eq!(checked("before"), still + gone.len(), "{}", story.display());
        assert_eq!(checked("after"), still + new.len(), "{}", story.display());
    }
}

/// What an edit of an EC2NodeClass does to its nodes.
#[test]
fn edits_of_a_node_class_replace_nodes_as_karpenter_does() {
    let class = |fields: &str| {
        format!(
            "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {{name: gpu}}\nspec:\n  role: nodes\n{fields}\
             ---\napiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {{name: gpu}}\nspec:\n  template:\n    spec:\n      \
             nodeClassRef: {{group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}}\n      requirements:\n        \
             - {{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}}\n"
        )
    };
    let old = "  amiSelectorTerms: [{alias: bottlerocket@v1.40.0}]\n";
    for (more, expected) in [
        ("  amiFamily: Bottlerocket\n", "none"),
        ("  ipPrefixCount: 1\n", "none"),
        ("  amiFamily: AL2023\n", "all"),
        ("  userData: \"\"\n", "all"),
        ("  subnetSelectorTerms: [{tags: {team: ml}}]\n", "unknown"),
    ] {
        let folder = Folder::new()
            .with("before/class.yaml", class(old))
            .with("after/class.yaml", class(&format!("{old}{more}")));
        let value = json(&folder.0, "before", "after");
        let nodes = value["sets"].as_array().unwrap().iter().flat_map(|set| set["pools"].as_array().unwrap());
        let nodes: Vec<&str> = nodes.map(|pool| pool["nodes"].as_str().unwrap()).collect();
        assert_eq!(nodes.first().copied().unwrap_or("none"), expected, "{more}");
    }
}

/// The text of a plan of two folders.
pub(super) fn told(folder: &Folder) -> String {
    plan(&folder.0, "before", "after", "text").out
}

pub(super) const CLASS: &str = "\
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: gpu}
spec:
  role: nodes
  amiSelectorTerms: [{alias: bottlerocket@v1.40.0}]
";

/// A NodePool with some types, taints and other fields.
pub(super) fn pool(name: &str, types: &str, taints: &str, more: &str) -> String {
    format!(
        "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {{name: {name}}}\nspec:\n{more}  template:\n    metadata: \
         {{labels: {{team: {name}}}}}\n    spec:\n      nodeClassRef: {{group: karpenter.k8s.aws, kind: EC2NodeClass, name: \
         gpu}}\n      taints: [{taints}]\n      requirements:\n        - {{key: node.kubernetes.io/instance-type, operator: In, \
         values: [{types}]}}\n        - {{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}}\n"
    )
}

pub(super) fn deployment(name: &str, selector: &str, replicas: u32) -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}}}\nspec:\n  replicas: {replicas}\n  selector: \
         {{matchLabels: {{app: {name}}}}}\n  template:\n    metadata: {{labels: {{app: {name}}}}}\n    spec:\n      \
         nodeSelector: {selector}\n      containers: [{{name: a, image: 'a:1', resources: {{requests: {{cpu: 1, memory: \
         1Gi}}}}}}]\n"
    )
}

#[test]
fn a_file_that_does_not_parse_deletes_nothing() {
    let whole = format!("{}---\n{}", CLASS, pool("gpu", "m6a.large", "", ""));
    let broken = whole.replace("requirements:", "requirements: [");
    let app = deployment("web", "{team: gpu}", 2);
    for (before, after, side) in [(&whole, &broken, "after"), (&broken, &whole, "before")] {
        let folder = Folder::new()
            .with("before/pool.yaml", before)
            .with("before/app.yaml", &app)
            .with("after/pool.yaml", after)
            .with("after/app.yaml", &app);
        let value = json(&folder.0, "before", "after");
        assert_eq!(value["sets"].as_array().unwrap().len(), 0, "{value:#}");
        assert_eq!(value["unread"][0]["file"], "pool.yaml");
        assert_eq!(value["unread"][0]["side"], side);
        assert!(told(&folder).contains("1 file cannot be read"), "{}", told(&folder));
    }
    // The file of a change that is broken on both sides says nothing new.
    let folder =
        Folder::new().with("before/pool.yaml", &broken).with("after/pool.yaml", format!("# x\n{broken}"));
    assert!(told(&folder).contains("nothing changes"), "{}", told(&folder));
}

#[test]
fn another_api_version_changes_nothing() {
    let new = pool(
        "gpu",
        "m6a.large",
        "",
        "  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 5m}\n",
    )
    .replace("    spec:\n", "    spec:\n      expireAfter: 720h\n");
    let old = new
        .replace("karpenter.sh/v1\n", "karpenter.sh/v1beta1\n")
        .replace("group: karpenter.k8s.aws", "apiVersion: karpenter.k8s.aws/v1beta1")
        .replace("      expireAfter: 720h\n", "")
        .replace("consolidateAfter: 5m", "consolidateAfter: 5m, expireAfter: 720h");
    let app = deployment("web", "{team: gpu}", 2);
    for (before, after) in [(&old, &new), (&new, &old)] {
        let folder = Folder::new()
            .with("before/pool.yaml", before)
            .with("before/app.yaml", &app)
            .with("after/pool.yaml", after)
            .with("after/app.yaml", &app);
        let value = json(&folder.0, "before", "after");
        assert_eq!(value["sets"].as_array().unwrap().len(), 0, "{value:#}");
    }
}

#[test]
fn the_rows_of_pools_add_up_to_all() {
    let fixed = |replicas: u32, types: &str| pool("fixed", types, "", &format!("  replicas: {replicas}\n"));
    let other = pool("other", "m6a.large", "", "");
    let app = deployment("web", "{team: other}", 2);
    for (before, after) in [
        (String::new(), fixed(1, "m6a.large")),
        (fixed(1, "m6a.large"), String::new()),
        (fixed(1, "m6a.large"), fixed(3, "m6a.xlarge")),
    ] {
        let folder = Folder::new();
        let folder =
            [("before", before), ("after", after)].into_iter().fold(folder, |folder, (side, fixed)| {
                let all = format!("{CLASS}---\n{other}---\n{app}---\n{fixed}");
                folder.with(&format!("{side}/all.yaml"), all)
            });
        let value = json(&folder.0, "before", "after");
        let money = &value["sets"][0]["money"];
        for (load, of) in [("floor", "fewest"), ("ceiling", "most")] {
            let total = |side: &str| money[side][load]["dollarsAnHour"].as_f64().unwrap();
            let rows = |side: &str| {
                let pools = money["pools"].as_array().unwrap().iter();
                pools.map(|pool| pool[side][of]["dollarsAnHour"].as_f64().unwrap()).sum::<f64>()
            };
            let (all, own) = (total("after") - total("before"), rows("after") - rows("before"));
            assert!((all - own).abs() < 1e-6 && all.abs() > 0.01, "{money:#}");
        }
    }
}

#[test]
fn the_nearest_pool_is_that_of_the_rule() {
    let taint = "{key: team, value: ml, effect: NoSchedule}";
    let folder = |side: &str, folder: Folder, taints: &str| {
        let pools = format!("{}---\n{}", pool("a", "m6a.large", "", ""), pool("b", "m6a.xlarge", taints, ""));
        folder.with(&format!("{side}/pools.yaml"), format!("{CLASS}---\n{pools}")).with(
            &format!("{side}/app.yaml"),
            deployment("web", "{team: b, node.kubernetes.io/instance-type: m6a.xlarge}", 2),
        )
    };
    let folder = folder("after", folder("before", Folder::new(), ""), taint);
    let value = json(&folder.0, "before", "after");
    let nearest = &value["sets"][0]["workloads"][0]["after"]["nearest"];
    assert_eq!(nearest["pool"], "b", "{value:#}");
    assert!(nearest["obstacles"][0]["reason"].as_str().unwrap().contains("does not tolerate"), "{nearest:#}");
}

#[test]
fn a_second_file_with_a_workload_moves_no_other() {
    let pools =
        format!("{CLASS}---\n{}---\n{}", pool("a", "m6a.large", "", ""), pool("b", "m6a.xlarge", "", ""));
    let (own, other) = (deployment("web", "{team: a}", 2), deployment("web", "{team: b}", 2));
    let folder = Folder::new()
        .with("before/pools.yaml", &pools)
        .with("before/w.yaml", &own)
        .with("after/pools.yaml", &pools)
        .with("after/w.yaml", &own)
        .with("after/other/w.yaml", &other);
    let value = json(&folder.0, "before", "after");
    assert_eq!(value["sets"].as_array().unwrap().len(), 0, "{value:#}");
}

#[test]
fn user_data_says_which_line_differs() {
    let class = |line: &str| {
        let lines = "echo of the same line in both versions of a long script\n    ".repeat(4);
        format!(
            "{CLASS}  userData: |\n    #!/bin/bash\n    X=$(hostname)\n    {lines}{line}\n---\n{}",
            pool("gpu", "m6a.large", "", "")
        )
    };
    let folder =
        Folder::new().with("before/a.yaml", class("echo before")).with("after/a.yaml", class("echo after"));
    let value = json(&folder.0, "before", "after");
    let pool = &value["sets"][0]["pools"][0];
    assert_eq!(pool["text"], "all nodes are replaced, by `spec.userData`");
    assert_eq!(pool["edits"][0]["before"], "echo before");
    assert_eq!(pool["edits"][0]["after"], "echo after");
}

#[test]
fn a_headline_says_something_that_differs() {
    let side = |more: &str, types: &str| format!("{CLASS}---\n{}", pool("gpu", types, "", more));
    let headline = |before: String, after: String| {
        let folder = Folder::new().with("before/a.yaml", before).with("after/a.yaml", after);
        told(&folder).replace('\n', " ")
    };
    let disruption = |after: &str| {
        format!("  disruption: {{consolidateAfter: {after}, consolidationPolicy: WhenEmpty}}\n")
    };
    let text = headline(side(&disruption("5m"), "m6a.large"), side(&disruption("30s"), "m6a.large"));
    assert!(text.starts_with("before -> after: no node is replaced "), "{text}");
    let both = format!("{}---\n{}", side("", "m6a.large"), pool("new", "m6a.large", "", ""));
    let text = headline(side("", "m6a.large"), both);
    assert!(text.starts_with("before -> after: 1 new NodePool"), "{text}");
    let app = deployment("web", "{team: gpu}", 3);
    let with_app = |types: &str| format!("{}---\n{app}", side("  limits: {cpu: 8}\n", types));
    let text = headline(with_app("m6a.large, m6a.xlarge"), with_app("m6a.large"));
    assert!(text.contains(" up to ") && !text.contains("0.00 an hour"), "{text}");
}

#[test]
fn pods_that_go_elsewhere_and_are_more_are_told_of_both() {
    let pools =
        format!("{CLASS}---\n{}---\n{}", pool("one", "m6a.large", "", ""), pool("two", "m6a.large", "", ""));
    let folder = Folder::new()
        .with("before/pools.yaml", &pools)
        .with("before/app.yaml", deployment("web", "{team: one}", 2))
        .with("after/pools.yaml", &pools)
        .with("after/app.yaml", deployment("web", "{team: two}", 3));
    let value = json(&folder.0, "before", "after");
    for (name, moved) in [("one", "goes to `two`"), ("two", "comes from `one`")] {
        let pools = value["sets"][0]["money"]["pools"].as_array().unwrap();
        let causes = pools.iter().find(|pool| pool["name"] == name).unwrap()["causes"].to_string();
        assert!(causes.contains(moved) && causes.contains("runs 3 pods, was 2"), "{name}: {causes}");
    }
}

#[test]
fn a_set_is_known_by_its_objects() {
    let all = format!("{CLASS}---\n{}", pool("gpu", "m6a.large", "", ""));
    let shared = |folder: Folder, side: &str, clusters: [&str; 2]| {
        let base = folder
            .with(&format!("{side}/base/pool.yaml"), &all)
            .with(&format!("{side}/base/kustomization.yaml"), "resources: [pool.yaml]\n");
        clusters.into_iter().fold(base, |folder, cluster| {
            folder.with(&format!("{side}/clusters/{cluster}/kustomization.yaml"), "resources: [../../base]\n")
        })
    };
    let renamed = shared(shared(Folder::new(), "before", ["prod", "staging"]), "after", ["prod", "stage"]);
    let value = json(&renamed.0, "before", "after");
    assert_eq!(value["sets"].as_array().unwrap().len(), 0, "{value:#}");
    let second = Folder::new()
        .with("before/clusters/prod/all.yaml", &all)
        .with("after/clusters/prod/all.yaml", &all)
        .with("after/clusters/staging/all.yaml", &all);
    let value = json(&second.0, "before", "after");
    let sets = value["sets"].as_array().unwrap();
    assert_eq!((sets.len(), &sets[0]["isNew"]), (1, &true.into()), "{value:#}");
}

#[test]
fn pinned_images_and_references_of_old_apis_are_certain() {
    let own = pool("gpu", "m6a.large", "", "");
    let beta = own
        .replace("karpenter.sh/v1\n", "karpenter.sh/v1beta1\n")
        .replace("group: karpenter.k8s.aws, kind: EC2NodeClass, ", "");
    let beta_class = CLASS.replace("aws/v1\n", "aws/v1beta1\n");
    for (pool, class, from, to, expected) in [
        (&own, CLASS, "@v1.40.0", "@v1.41.0", "all"),
        (&own, CLASS, "@v1.40.0", "@latest", "unknown"),
        (&own, CLASS, "role: nodes", "role: others", "all"),
        (&own, CLASS, "role: nodes", "role: ${role}", "unknown"),
        (&own, &CLASS.replace("name: gpu", "name: gpu, namespace: karpenter"), "nodes", "others", "all"),
        (&beta, &beta_class, "role: nodes", "role: others", "refused"),
        (&beta, &beta_class, "role: nodes", "role: nodes\n  detailedMonitoring: true", "all"),
    ] {
        let folder = Folder::new()
            .with("before/all.yaml", format!("{class}---\n{pool}"))
            .with("after/all.yaml", format!("{}---\n{pool}", class.replace(from, to)));
        let value = json(&folder.0, "before", "after");
        assert_eq!(value["sets"][0]["pools"][0]["nodes"], expected, "{from} -> {to}: {value:#}");
    }
}

#[test]
fn edits_of_old_apis_are_told() {
    let provisioner = "\
apiVersion: karpenter.sh/v1alpha5
kind: Provisioner
metadata: {name: gpu}
spec:
  labels: {team: ml}
  requirements: [{key: karpenter.k8s.aws/instance-family, operator: In, values: [g5, g6]}]
  ttlSecondsUntilExpired: 2592000
  limits: {resources: {nvidia.com/gpu: 8}}
  providerRef: {name: gpu}
---
apiVersion: karpenter.k8s.aws/v1alpha1
kind: AWSNodeTemplate
metadata: {name: gpu}
spec:
  instanceProfile: nodes
  subnetSelector: {team: ml}
";
    let beta = pool(
        "gpu",
        "g6.xlarge",
        "",
        "  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 5m}\n",
    )
    .replace("karpenter.sh/v1\n", "karpenter.sh/v1beta1\n")
    .replace("group: karpenter.k8s.aws, ", "");
    let gate = "; Karpenter replaces them only with `featureGates.driftEnabled`";
    let gated = |text: &str| format!("{text}{gate}");
    let own = "of the Provisioners that use it, ";
    for (manifests, from, to, nodes, text) in [
        (provisioner, "{team: ml}\n  req", "{team: web}\n  req", "unknown", gated("all nodes drift, by `spec.labels.team`")),
        (provisioner, "[g5, g6]", "[g6]", "unknown", gated("some nodes drift: those of g5 (8 types)")),
        (provisioner, "gpu: 8", "gpu: 4", "none", "no node is replaced, by `spec.limits.resources[nvidia.com/gpu]`".to_owned()),
        (provisioner, "2592000", "86400", "none", "no node drifts, but nodes older than 24 h are replaced, by `spec.ttlSecondsUntilExpired`".to_owned()),
        (provisioner, "providerRef: {name: gpu}", "providerRef: {name: other}", "unknown", gated("nodes drift if `spec.providerRef.name` selects something else in EC2")),
        (provisioner, "instanceProfile: nodes", "instanceProfile: others", "unknown", gated(&format!("{own}all nodes drift, by `spec.instanceProfile`"))),
        (provisioner, "subnetSelector: {team: ml}", "subnetSelector: {team: web}", "unknown", gated(&format!("{own}nodes drift if `spec.subnetSelector.team` selects something else in EC2"))),
        (&beta, "      taints: []\n", "      kubelet: {maxPods: 30}\n", "all", "all nodes are replaced, by `spec.template.spec.kubelet`".to_owned()),
        (&beta, "[g6.xlarge]", "[g6.2xlarge]", "all", "all nodes are replaced: those of g6.xlarge".to_owned()),
        (&beta, "WhenEmpty, consolidateAfter: 5m", "WhenUnderutilized", "none", "no node drifts, but Karpenter empties nodes that are not full from now on, by `spec.disruption.consolidationPolicy` and `spec.disruption.consolidateAfter`".to_owned()),
    ] {
        assert!(manifests.contains(from), "{from}: {manifests}");
        let folder = Folder::new()
            .with("before/all.yaml", manifests)
            .with("after/all.yaml", manifests.replacen(from, to, 1));
        let value = json(&folder.0, "before", "after");
        let set = &value["sets"][0];
        let one = if set["others"][0].is_null() { &set["pools"][0] } else { &set["others"][0] };
        assert_eq!((one["nodes"].as_str(), one["text"].as_str()), (Some(nodes), Some(&*text)), "{value:#}");
        assert!(told(&folder).contains("Not compared: pods and dollars of"), "{}", told(&folder));
    }
}

#[test]
fn pods_that_hold_a_node_count_for_how_long_a_replacement_takes() {
    let pods = deployment("web", "{team: gpu}", 2).replace(
        "metadata: {labels: {app: web}}",
        "metadata: {labels: {app: web}, annotations: {karpenter.sh/do-not-disrupt: 'true'}}",
    );
    let side = |age: &str, limit: &str| {
        let own = pool("gpu", "m6a.large", "", "")
            .replace("    spec:\n", &format!("    spec:\n      expireAfter: {age}\n{limit}"));
        format!("{CLASS}---\n{own}---\n{pods}")
    };
    for (limit, least, most) in
        [("", "at least 6 min", None), ("      terminationGracePeriod: 2h\n", "6 min to", Some(246))]
    {
        let folder =
            Folder::new().with("before/a.yaml", side("24h", limit)).with("after/a.yaml", side("48h", limit));
        let rollout = json(&folder.0, "before", "after")["sets"][0]["pools"][0]["rollout"].clone();
        assert_eq!(rollout["minutes"]["most"].as_i64(), most, "{rollout:#}");
        assert!(told(&folder).contains(least), "{}", told(&folder));
    }
}

#[test]
fn what_charts_give_is_said_not_to_be_compared() {
    let release = |version: &str, replicas: u32| {
        format!(
            "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {{name: karpenter, namespace: karpenter}}\nspec:\n  \
             interval: 1h\n  chart: {{spec: {{chart: karpenter, version: {version}, sourceRef: {{kind: HelmRepository, name: a}}}}}}\n---\n\
             apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {{name: llm, namespace: ml}}\nspec:\n  interval: 1h\n  \
             chart: {{spec: {{chart: llm, sourceRef: {{kind: HelmRepository, name: a}}}}}}\n  values: {{replicas: {replicas}}}\n"
        )
    };
    let folder = Folder::new()
        .with("before/releases.yaml", release("1.11.0", 1))
        .with("after/releases.yaml", release("1.12.0", 4));
    let text = told(&folder);
    assert!(text.contains("Karpenter 1.11 -> 1.12"), "{text}");
    let value = json(&folder.0, "before", "after");
    assert_eq!(value["uncompared"], serde_json::json!(["HelmRelease llm"]));
}

#[test]
fn what_kustomizations_change_is_said_not_to_be_compared() {
    let side = |folder: Folder, side: &str, overlay: &str, patch: &str| {
        folder
            .with(
                &format!("{side}/base/pool.yaml"),
                format!("{CLASS}---\n{}", pool("gpu", "m6a.large", "", "")),
            )
            .with(&format!("{side}/base/kustomization.yaml"), "resources: [pool.yaml]\n")
            .with(&format!("{side}/prod/kustomization.yaml"), format!("resources: [../base]\n{overlay}"))
            .with(&format!("{side}/prod/patch.yaml"), patch)
    };
    let inline = |age: &str| {
        format!(
            "patches: [{{patch: '[{{op: replace, path: /spec/template/spec/expireAfter, value: {age}}}]', target: {{kind: NodePool}}}}]\n"
        )
    };
    let listed = "patches: [{path: patch.yaml}]\n";
    let file = |age: &str| {
        format!(
            "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {{name: gpu}}\nspec: {{template: {{spec: {{expireAfter: {age}}}}}}}\n"
        )
    };
    let named = |(old, old_patch): (&str, &str), (new, new_patch): (&str, &str)| {
        let folder = side(side(Folder::new(), "before", old, old_patch), "after", new, new_patch);
        json(&folder.0, "before", "after")["uncompared"].clone()
    };
    let (day, week) = (file("24h"), file("168h"));
    let overlay = "prod/kustomization.yaml";
    assert_eq!(named((&inline("24h"), ""), (&inline("168h"), "")), serde_json::json!([overlay]));
    assert_eq!(named(("", ""), (listed, &day)), serde_json::json!([overlay, "prod/patch.yaml"]));
    assert_eq!(named((listed, &day), (listed, &week)), serde_json::json!(["prod/patch.yaml"]));
    // What a kustomization lists, and how it names things, is known as it is written.
    assert_eq!(named((listed, &day), (&format!("namePrefix: a-\n{listed}"), &day)), serde_json::json!([]));
    // A patch that stays as it is may decide about an edit of the base.
    let folder = side(side(Folder::new(), "before", listed, &day), "after", listed, &day);
    let folder =
        folder.with("after/base/pool.yaml", format!("{CLASS}---\n{}", pool("gpu", "m6a.xlarge", "", "")));
    let text = told(&folder);
    assert!(text.contains("Patches of kustomizations change `gpu` as well"), "{text}");
}

/// The findings of a check, each with its name and what is shown of it.
fn checked(folder: &Folder, args: &[&str]) -> BTreeSet<String> {
    let run = folder.run(&[&["check", "--format", "json"][..], args].concat());
    let report: Value = serde_json::from_str(&run.out).unwrap();
    let line = |one: &Value| {
        let start = &one["range"]["start"];
        told_of(one, &start["line"], &start["column"])
    };
    texts(&report["diagnostics"], line)
}

fn told_of(finding: &Value, line: &Value, column: &Value) -> String {
    let of = |member: &str| finding[member].to_string();
    let words = ["fingerprint", "rule", "severity", "message", "help", "file"].map(of);
    format!("{} {line}:{column}", words.join(" "))
}

/// The findings that others lack, by name.
fn without(all: &BTreeSet<String>, others: &BTreeSet<String>) -> BTreeSet<String> {
    let name = |one: &String| one.split(' ').next().unwrap_or_default().to_owned();
    let known: BTreeSet<String> = others.iter().map(name).collect();
    all.iter().filter(|one| !known.contains(&name(one))).cloned().collect()
}

/// Files by their paths.
type Files = Vec<(&'static str, String)>;
/// Files with their new texts; `None` removes one.
type Changes = Vec<(&'static str, Option<String>)>;

/// The files of two clusters that share some, and changes, each of one file.
fn files_and_changes() -> (Files, Changes) {
    let clusters = "clusters: [{name: east, paths: [east, base]}, {name: west, paths: [west, base]}]\n";
    let karpenter = |version: &str| {
        format!(
            "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {{name: karpenter, namespace: karpenter}}\nspec:\n  \
             interval: 1h\n  chart: {{spec: {{chart: karpenter, version: {version}, sourceRef: {{kind: HelmRepository, name: a}}}}}}\n"
        )
    };
    let guard = "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: web}\nspec:\n  maxUnavailable: 0\n  selector: \
                 {matchLabels: {app: web}}\n";
    let of_pool = "{karpenter.sh/nodepool: gpu}";
    let gpu = |taints: &str| pool("gpu", "m6a.large", taints, "");
    let files = vec![
        ("gpulint.yaml", clusters.to_owned()),
        ("base/class.yaml", CLASS.to_owned()),
        ("base/web.yaml", deployment("web", of_pool, 2)),
        ("base/guard.yaml", guard.to_owned()),
        ("east/pool.yaml", gpu("")),
        ("east/train.yaml", deployment("train", of_pool, 2)),
        ("west/pool.yaml", gpu("")),
        ("west/fixed.yaml", pool("fixed", "m6a.large", "", "  replicas: 1\n")),
        ("west/train.yaml", deployment("train", of_pool, 2)),
        ("west/karpenter.yaml", karpenter("1.11.0")),
    ];
    let changes = vec![
        ("west/pool.yaml", Some(gpu("{key: team, value: ml, effect: NoSchedule}"))),
        ("base/class.yaml", None),
        ("base/web.yaml", None),
        ("west/karpenter.yaml", Some(karpenter("1.5.0"))),
        ("gpulint.yaml", Some(format!("{clusters}platform: {{karpenter: 1.0}}\n"))),
        ("gpulint.yaml", Some(format!("{clusters}rules: {{pdb-blocks-evictions: off}}\n"))),
        ("gpulint.yaml", Some(String::new())),
    ];
    (files, changes)
}

/// Each change concerns findings of files that are as they were.
#[test]
fn the_findings_of_both_sides_are_those_of_checks() {
    let (files, changes) = files_and_changes();
    for (file, text) in changes {
        let was = files.iter().find(|(name, _)| *name == file).map(|(_, text)| text.clone());
        for (old, new) in [(was.clone(), text.clone()), (text, was)] {
            let folder = files.iter().fold(Folder::new(), |folder, (file, text)| folder.with(file, text));
            let put = |text: &Option<String>| match text {
                Some(text) => std::fs::write(folder.0.join(file), text).unwrap(),
                None => std::fs::remove_file(folder.0.join(file)).unwrap(),
            };
            folder.git(&["init", "-q", "-b", "main"]);
            put(&old);
            folder.commit("before");
            let before = checked(&folder, &[]);
            put(&new);
            let after = checked(&folder, &[]);
            let (come, left) = (without(&after, &before), without(&before, &after));
            let run = folder.run(&["plan", "HEAD", "--format", "json"]);
            let value: Value = serde_json::from_str(&run.out).unwrap();
            let named = |list: &str| texts(&value["findings"][list], |one| one["fingerprint"].to_string());
            let names = |all: &BTreeSet<String>| -> BTreeSet<String> {
                all.iter().filter_map(|one| one.split(' ').next()).map(str::to_owned).collect()
            };
            let new = texts(&value["findings"]["new"], |one| told_of(one, &one["line"], &one["column"]));
            assert_eq!(new, come, "{file} {old:?}");
            assert_eq!(named("gone"), names(&left), "{file} {old:?}");
            assert_eq!(checked(&folder, &["--since", "HEAD"]), come, "{file} {old:?}");
            // The file alone changes as much.
            let run = folder.run(&["plan", "HEAD", file, "--format", "json"]);
            let alone: Value = serde_json::from_str(&run.out).unwrap();
            for part in ["sets", "findings", "upgrades", "uncompared", "exitCode"] {
                assert_eq!(alone[part], value[part], "{file} {old:?}: {part}");
            }
            let is_elsewhere = |one: &String| !one.contains(&format!("{file:?}"));
            assert!(come.iter().chain(&left).any(is_elsewhere), "{file} {old:?}: nothing changes elsewhere");
        }
    }
}
