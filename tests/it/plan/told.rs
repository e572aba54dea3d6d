//! What is told of a change, and what is not known of it.

use serde_json::json;

use super::laws::{CLASS, deployment, json, pool, told};
use crate::support::Folder;

/// The text of a plan, in one line.
fn line(folder: &Folder) -> String {
    told(folder).split_whitespace().collect::<Vec<_>>().join(" ")
}

fn sides(before: impl AsRef<[u8]>, after: impl AsRef<[u8]>) -> Folder {
    Folder::new().with("before/all.yaml", before).with("after/all.yaml", after)
}

#[test]
fn an_edit_that_is_rejected_leaves_those_of_other_objects() {
    let own = pool("gpu", "m6a.large", "", "  limits: {cpu: 8}\n");
    let beta = own
        .replace("karpenter.sh/v1\n", "karpenter.sh/v1beta1\n")
        .replace("group: karpenter.k8s.aws, kind: EC2NodeClass, ", "");
    let beta_class = CLASS.replace("aws/v1\n", "aws/v1beta1\n");
    let of_class = "the API server rejects the edit of `spec.role` of EC2NodeClass `gpu`";
    for (pool, class, from, to, nodes, text) in [
        (&beta, &*beta_class, "cpu: 8", "cpu: 8", "refused", of_class.to_owned()),
        (
            &beta,
            &beta_class,
            "cpu: 8",
            "cpu: 9",
            "none",
            format!("no node is replaced, by `spec.limits.cpu`; {of_class}"),
        ),
        (
            &beta,
            &beta_class,
            "[m6a.large]",
            "[m6a.xlarge]",
            "all",
            format!("all nodes are replaced: those of m6a.large; {of_class}"),
        ),
        (
            &own,
            CLASS,
            "  limits: {cpu: 8}",
            "  replicas: 1\n  limits: {cpu: 9}",
            "all",
            "all nodes are replaced, by `spec.role`; the API server rejects the edit of `spec.replicas`"
                .to_owned(),
        ),
    ] {
        let folder = Folder::new().with("before/all.yaml", format!("{class}---\n{pool}")).with(
            "after/all.yaml",
            format!("{}---\n{}", class.replace("role: nodes", "role: others"), pool.replace(from, to)),
        );
        let value = json(&folder.0, "before", "after");
        let one = &value["sets"][0]["pools"][0];
        assert_eq!((one["nodes"].as_str(), one["text"].as_str()), (Some(nodes), Some(&*text)), "{value:#}");
    }
}

#[test]
fn workloads_are_counted_and_not_their_templates() {
    let group = |name: &str| {
        format!(
            "    - {{groupName: {name}, replicas: 1, minReplicas: 1, maxReplicas: 1, rayStartParams: {{}}, template: {{spec: \
             {{nodeSelector: {{team: gpu}}, containers: [{{name: a, image: 'a:1'}}]}}}}}}\n"
        )
    };
    let cluster = |groups: &[&str]| {
        let groups: String = groups.iter().map(|name| group(name)).collect();
        format!(
            "apiVersion: ray.io/v1\nkind: RayCluster\nmetadata: {{name: train, namespace: ml}}\nspec:\n  headGroupSpec: \
             {{rayStartParams: {{}}, template: {{spec: {{nodeSelector: {{team: gpu}}, containers: [{{name: a, image: \
             'a:1'}}]}}}}}}\n  workerGroupSpecs:\n{groups}"
        )
    };
    let side = |more: String| format!("{CLASS}---\n{}---\n{more}", pool("gpu", "m6a.large", "", ""));
    let (one, two) = (cluster(&["a"]), cluster(&["a", "b"]));
    let added = "ml/raycluster/train, spec.workerGroupSpecs[1].template.spec is new: lands on `gpu`";
    for (before, after, expected) in [
        (String::new(), &one, ["1 new workload", "ml/raycluster/train is new: lands on `gpu`"]),
        (one.clone(), &two, ["pods of 1 workload go elsewhere", added]),
        // The group that is left is the same, at another place of the list.
        (
            two.clone(),
            &cluster(&["b"]),
            [
                "pods of 1 workload go elsewhere",
                "spec.workerGroupSpecs[0].template.spec is gone, was on `gpu`",
            ],
        ),
        (two.clone(), &String::new(), ["1 workload is gone", "ml/raycluster/train is gone, was on `gpu`"]),
    ] {
        let folder =
            Folder::new().with("before/all.yaml", side(before)).with("after/all.yaml", side(after.clone()));
        let text = line(&folder);
        assert!(expected.iter().all(|words| text.contains(words)), "{text}");
    }
}

#[test]
fn a_class_of_new_nodes_alone_replaces_none() {
    let other = CLASS.replace("role: nodes", "role: others");
    let (old, new) = (pool("old", "m6a.large", "", ""), pool("new", "m6a.large", "", ""));
    for (before, after, expected) in [
        (&old, &new, "EC2NodeClass gpu changes only new nodes, by `spec.role`"),
        (&String::new(), &new, "EC2NodeClass gpu changes only new nodes, by `spec.role`"),
        (&old, &old, "NodePool old: all nodes are replaced, by `spec.role`"),
        (
            &String::new(),
            &String::new(),
            "EC2NodeClass gpu: no NodePool here uses it; of those that do, all nodes",
        ),
    ] {
        let text = line(&sides(format!("{CLASS}---\n{before}"), format!("{other}---\n{after}")));
        assert!(text.contains(expected), "{expected}: {text}");
    }
}

#[test]
fn pods_had_other_nodes_where_there_was_no_node_pool() {
    let own = format!("{CLASS}---\n{}", pool("gpu", "m6a.large", "", ""));
    let app = deployment("web", "{}", 2);
    let (without, with) = (app.clone(), format!("{own}---\n{app}"));
    let text = line(&sides(&without, &with));
    assert!(text.contains("1 workload fits a NodePool now"), "{text}");
    assert!(text.contains("deployment/web fits on the NodePool `gpu`, and there was none before"), "{text}");
    assert!(!text.contains("pods without room"), "{text}");
    let text = line(&sides(&with, &without));
    assert!(text.contains("deployment/web fits nowhere, was on `gpu`: no NodePool is left"), "{text}");
}

#[test]
fn new_node_pools_say_what_they_start_and_those_that_go_are_not_replaced() {
    let one = format!("{CLASS}---\n{}", pool("gpu", "m6a.large", "", ""));
    let two = format!("{one}---\n{}", pool("more", "m6a.large", "", "  limits: {cpu: 4}\n"));
    let folder = sides(&one, &two);
    let text = line(&folder);
    assert!(text.contains("New NodePools NodePool more is new") && text.contains("1 new NodePool"), "{text}");
    let starts = "starts nodes of m6a.large, `on-demand` first; its limits allow $0.17 an hour";
    assert!(text.contains(starts) && text.contains("Dollars: an hour"), "{text}");
    assert_eq!(
        json(&folder.0, "before", "after")["sets"][0]["pools"][0]["starts"]["types"],
        json!(["m6a.large"])
    );
    let text = line(&sides(&two, &one));
    let gone = ["1 NodePool is gone with its nodes", "NodePools that are gone NodePool more is gone:"];
    assert!(gone.iter().all(|words| text.contains(words)), "{text}");
    assert!(!text.contains("AMIs") && !text.contains("are replaced"), "{text}");
    // Nothing is said of dollars where none are shown.
    let text = line(&sides(&one, format!("{one}---\n{}", pool("more", "m6a.large", "", ""))));
    assert!(text.contains("no limit bounds what they cost") && !text.contains("Prices"), "{text}");
}

#[test]
fn what_was_not_known_is_not_lost() {
    let hidden = format!(
        "{CLASS}---\n{}",
        pool("\"${NAME}\"", "m6a.large", "", "").replace("[m6a.large]", "[\"${TYPES}\"]")
    );
    let app = deployment("web", "{}", 1);
    let (with, without) = (format!("{hidden}---\n{app}"), app.clone());
    for (before, after) in [(&with, &without), (&without, &with)] {
        let text = line(&sides(before, after));
        assert!(
            !["fits nowhere", "no NodePool", "may fit"].iter().any(|words| text.contains(words)),
            "{text}"
        );
    }
    let text = line(&sides(&hidden, &with));
    assert!(text.contains("value of the NodePool `${NAME}` decides"), "{text}");
    let selects = |tag: &str| {
        let terms = format!(
            "subnetSelectorTerms: [{{tags: {{a: {tag}}}}}]\n  securityGroupSelectorTerms: [{{tags: {{a: {tag}}}}}]"
        );
        format!("{}---\n{}", CLASS.replace("role: nodes", &terms), pool("gpu", "m6a.large", "", ""))
    };
    let text = line(&sides(selects("b"), selects("c")));
    assert!(text.contains("Nodes that may be replaced NodePool gpu: nodes are replaced if"), "{text}");
    assert!(text.contains("` select something else in EC2"), "{text}");
    assert!(text.contains("an unknown number of nodes, 10 % at a time"), "{text}");
}

#[test]
fn sets_are_named_so_that_counts_are_understood() {
    let cluster = |role: &str| {
        format!("{}---\n{}", CLASS.replace("role: nodes", role), pool("gpu", "m6a.large", "", ""))
    };
    let sets = "clusters: [{name: east, paths: [east]}, {name: west, paths: [west]}]\n";
    let mut folder = Folder::new();
    for (side, role, replicas) in [("before", "role: nodes", 1), ("after", "role: others", 2)] {
        folder = folder
            .with(&format!("{side}/gpulint.yaml"), sets)
            .with(&format!("{side}/east/all.yaml"), cluster(role))
            .with(&format!("{side}/other/web.yaml"), deployment("web", "{}", replicas));
        folder = folder.with(&format!("{side}/west/all.yaml"), cluster(role));
    }
    let text = line(&folder);
    assert!(text.contains("nodes of 2 NodePools are replaced"), "{text}");
    assert!(text.contains("In files of no cluster: Number of pods") && !text.contains("unclaimed"), "{text}");
}

/// Reports for people show some findings: the worst are among them.
#[test]
fn the_worst_findings_come_first() {
    let mild = |name: &str| deployment(name, "{}", 1).replace("'a:1'", "'a:latest'");
    let bad = deployment("zzz", "{}", 1).replace("replicas: 1", "replicas: one");
    let all = ('a'..='n').map(|name| mild(&name.to_string())).collect::<Vec<_>>().join("---\n");
    let folder =
        sides(deployment("base", "{}", 1), format!("{}---\n{all}---\n{bad}", deployment("base", "{}", 1)));
    let value = json(&folder.0, "before", "after");
    let severities: Vec<&str> = value["findings"]["new"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|one| one["severity"].as_str())
        .collect();
    assert!(severities.len() > 1 && severities[0] == "error", "{severities:?}");
    assert!(severities.iter().skip_while(|one| **one != "info").all(|one| *one == "info"), "{severities:?}");
}

#[test]
fn another_number_of_pods_is_told_without_node_pools() {
    let scaled = |most: u32| {
        format!(
            "{}---\napiVersion: keda.sh/v1alpha1\nkind: ScaledObject\nmetadata: {{name: web}}\nspec:\n  scaleTargetRef: {{name: \
             web}}\n  minReplicaCount: 2\n  maxReplicaCount: {most}\n  triggers: [{{type: cpu, metricType: Utilization, \
             metadata: {{value: '60'}}}}]\n",
            deployment("web", "{}", 2).replace("  replicas: 2\n", "")
        )
    };
    let resized = "another number of pods of 1 workload";
    for (before, after, headline, expected) in [
        (scaled(4), scaled(12), resized, "deployment/web runs 2 to 12 pods, was 2 to 4"),
        (scaled(2), deployment("web", "{}", 1), resized, "deployment/web runs 1 pod, was 2"),
        (String::new(), deployment("web", "{}", 1), "1 new workload", "deployment/web is new: 1 pod"),
        (scaled(4), String::new(), "1 workload is gone", "deployment/web is gone, was 2 to 4 pods"),
    ] {
        let base = deployment("base", "{}", 1);
        let folder = sides(format!("{base}---\n{before}"), format!("{base}---\n{after}"));
        let text = line(&folder);
        assert!(text.contains(headline) && text.contains(expected), "{text}");
        assert_eq!(json(&folder.0, "before", "after")["sets"][0]["resized"].as_array().unwrap().len(), 1);
    }
}

/// Objects that leave the manifests for a chart or Terraform are not deleted.
#[test]
fn what_programs_may_give_is_not_gone() {
    let own = format!("{CLASS}---\n{}", pool("gpu", "m6a.large", "", ""));
    let app = deployment("web", "{team: gpu}", 2);
    let terraform = "resource \"kubectl_manifest\" \"a\" { yaml_body = yamlencode({kind = \"NodePool\"}) }\n";
    let template = "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: {{ .Values.name }}}\n";
    let chart = "apiVersion: v2\nname: a\nversion: 1.0.0\n";
    let of_terraform = "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: ${name}}\n";
    for (file, text, is_renderable) in [
        ("pools.tf", terraform, false),
        ("pool.tpl", of_terraform, false),
        ("chart/templates/pool.yaml", template, true),
    ] {
        let folder = Folder::new()
            .with("before/pool.yaml", &own)
            .with("before/app.yaml", &app)
            .with("before/chart/Chart.yaml", chart)
            .with("after/app.yaml", &app)
            .with("after/chart/Chart.yaml", chart)
            .with(&format!("after/{file}"), text);
        for (before, after) in [("before", "after"), ("after", "before")] {
            let value = json(&folder.0, before, after);
            let pools =
                value["sets"].as_array().unwrap().iter().flat_map(|set| set["pools"].as_array().unwrap());
            assert_eq!(pools.count(), 0, "{file}: {value:#}");
            assert_eq!(value["uncompared"], json!([file]), "{file}");
            assert_eq!(line(&folder).contains("--render"), is_renderable, "{file}");
        }
    }
    // A file that says nothing of NodePools has none.
    let folder = Folder::new()
        .with("before/pool.yaml", &own)
        .with("before/app.yaml", &app)
        .with("after/app.yaml", &app)
        .with("after/network.tf", "resource \"aws_vpc\" \"a\" {}\n");
    assert!(line(&folder).contains("gpu is gone"), "{}", line(&folder));
}

#[test]
fn what_decides_about_charts_is_said_not_to_be_compared() {
    let chart = "apiVersion: v2\nname: a\nversion: 1.0.0\n";
    let app = deployment("web", "{}", 1);
    for file in [
        "charts/a/values/prod/web.yaml",
        "charts/a/values.yaml",
        "charts/a/templates/_helpers.tpl",
        "environments/prod-values.yaml",
    ] {
        let side = |folder: Folder, side: &str, replicas: u32| {
            folder
                .with(&format!("{side}/app.yaml"), &app)
                .with(&format!("{side}/charts/a/Chart.yaml"), chart)
                .with(&format!("{side}/{file}"), format!("replicas: {replicas}\n"))
        };
        let folder = side(side(Folder::new(), "before", 1), "after", 9);
        assert_eq!(json(&folder.0, "before", "after")["uncompared"], json!([file]));
        assert!(
            line(&folder).contains(&format!("not compared: what programs make of `{file}`")),
            "{}",
            line(&folder)
        );
    }
}
