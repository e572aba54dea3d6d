//! Makes the changes that explanations propose, as a reader would, to the manifests.

use gpulint_rules::fit::{Change, Side};
use serde_json::{Value, json};

/// The manifests that a change may edit.
pub(crate) struct Manifests<'v> {
    pub pod: &'v mut Value,
    pub pool: &'v mut Value,
    pub class: Option<&'v mut Value>,
}

impl Manifests<'_> {
    /// Makes a change.
    pub(crate) fn apply(&mut self, change: &Change) {
        let quoted: Vec<&str> = change.text.split('`').skip(1).step_by(2).collect();
        let between: Vec<&str> = change.text.split('`').step_by(2).collect();
        match change.side {
            Side::Pod => self.change_pod(&quoted, &between),
            Side::Pool => self.change_pool(&quoted, &between),
            Side::Other => self.change_class(&quoted, &between),
        }
    }

    fn change_pod(&mut self, quoted: &[&str], between: &[&str]) {
        let spec = &mut self.pod["spec"];
        match (between[0].trim(), quoted) {
            ("tolerate", [taint]) => push(&mut spec["tolerations"], tolerating(taint)),
            ("ask for the NodePool", [name]) => select(spec, "karpenter.sh/nodepool", name),
            ("ask for", [value, key]) => select(spec, key, value),
            ("ask for", [setting]) => {
                let (key, value) = setting.split_once(": ").expect("a label and its value");
                ask_here(spec, key, value);
            }
            (text, [key]) if text.starts_with("ask for ") && text.ends_with(" in") => {
                let first = text.trim_start_matches("ask for ").split([',', ' ']).next();
                ask_here(spec, key, first.expect("a value"));
            }
            ("do not ask for", names) => {
                for name in names {
                    drop_key(spec, name);
                    request(spec, name, None);
                }
            }
            ("use another host port, or none", _) => {
                let containers = spec["containers"].as_array_mut().into_iter().flatten();
                containers.for_each(|container| container["ports"] = json!([]));
            }
            (text, names) if text.starts_with("ask for at most") => {
                for (name, before) in names.iter().zip(between) {
                    let amount = before.rsplit("at most ").next().and_then(|text| text.split(' ').next());
                    request(spec, name, amount);
                }
            }
            (text, []) if text.starts_with("remove the rule") || text.starts_with("prefer that affinity") => {
                drop(spec["affinity"].as_object_mut().expect("an affinity").remove("podAffinity"));
            }
            other => panic!("a change of a pod: {other:?}"),
        }
    }

    fn change_pool(&mut self, quoted: &[&str], between: &[&str]) {
        let spec = &mut self.pool["spec"];
        let mut at = 0;
        while at < quoted.len() {
            let before = between[at].trim_start_matches(" and ").trim();
            let after = between[at + 1];
            match before {
                "remove the taint" => {
                    let gone = tolerating(quoted[at]);
                    let taints = spec["template"]["spec"]["taints"].as_array_mut().expect("taints");
                    taints.retain(|taint| taint["key"] != gone["key"] || taint["effect"] != gone["effect"]);
                }
                "add the label" => {
                    let (key, value) = quoted[at].split_once(": ").unwrap_or((quoted[at], "1"));
                    spec["template"]["metadata"]["labels"][key] = json!(value);
                }
                "allow" => {
                    allow(spec, quoted[at + 1], &[quoted[at]]);
                    at += 1;
                }
                "raise" => spec["limits"]["nodes"] = json!("100"),
                "raise the limit of" => {
                    let amount = after.strip_prefix(" to ").and_then(|text| text.split([' ', ',']).next());
                    spec["limits"][quoted[at]] = json!(amount.unwrap_or("1000000000Ti"));
                }
                "lower" => {
                    let count = after_number(between[at + 2]);
                    for requirement in
                        spec["template"]["spec"]["requirements"].as_array_mut().into_iter().flatten()
                    {
                        if requirement["key"] == quoted[at + 1] && requirement["minValues"].is_number() {
                            requirement["minValues"] = json!(count.max(1));
                        }
                    }
                    at += 1;
                }
                "remove" => drop(spec.as_object_mut().expect("a spec").remove(quoted[at])),
                text if text.starts_with("allow ") => {
                    let values = text.trim_start_matches("allow ").trim_end_matches(" in");
                    allow(spec, quoted[at], &values.split(", ").collect::<Vec<_>>());
                }
                other => panic!("a change of a pool: {other:?} {quoted:?}"),
            }
            at += 1;
        }
    }

    fn change_class(&mut self, quoted: &[&str], between: &[&str]) {
        let spec = &mut self.class.as_mut().expect("a class")["spec"];
        match (between[0].trim(), quoted) {
            ("raise", [field]) => spec["kubelet"][field] = json!(after_number(between[1])),
            ("remove", ["rootVolume"]) => {
                for mapping in spec["blockDeviceMappings"].as_array_mut().into_iter().flatten() {
                    drop(mapping.as_object_mut().expect("a mapping").remove("rootVolume"));
                }
            }
            ("give", [device, "volumeSize"]) => {
                let size = between[2].trim_start_matches(" of ");
                let mappings = &mut spec["blockDeviceMappings"];
                let mut known = mappings.as_array_mut().into_iter().flatten();
                match known.find(|mapping| mapping["deviceName"] == *device) {
                    Some(mapping) => mapping["ebs"]["volumeSize"] = json!(size),
                    None => push(mappings, json!({"deviceName": device, "ebs": {"volumeSize": size}})),
                }
            }
            ("remove", [field]) => drop(spec["kubelet"].as_object_mut().expect("a kubelet").remove(*field)),
            ("set", [setting]) => {
                let (field, value) = setting.split_once(": ").expect("a field and its value");
                spec[field] = json!(value);
            }
            other => panic!("a change of a class: {other:?}"),
        }
    }
}

fn after_number(text: &str) -> u64 {
    text.trim_start_matches(" to ").trim_end_matches(" or more").parse().expect("a number")
}

fn push(list: &mut Value, item: Value) {
    match list {
        Value::Array(items) => items.push(item),
        other => *other = json!([item]),
    }
}

/// The toleration of a taint in kubectl's notation.
fn tolerating(taint: &str) -> Value {
    let (rest, effect) = taint.rsplit_once(':').expect("an effect");
    json!({"key": rest.split('=').next(), "operator": "Exists", "effect": effect})
}

/// Asks for a label in the place of the one that other nodes have for the same.
fn ask_here(spec: &mut Value, key: &str, value: &str) {
    let name = key.rsplit('/').next().unwrap_or(key);
    for prefix in ["karpenter.k8s.aws", "eks.amazonaws.com"] {
        drop_key(spec, &format!("{prefix}/{name}"));
    }
    drop_key(spec, "eks.amazonaws.com/capacityType");
    select(spec, key, value);
}

fn select(spec: &mut Value, key: &str, value: &str) {
    drop_key(spec, key);
    spec["nodeSelector"][key] = json!(value);
}

/// Removes a label from the selector and from all terms of node affinity.
fn drop_key(spec: &mut Value, key: &str) {
    let others: &[&str] = match key {
        "kubernetes.io/arch" => &["beta.kubernetes.io/arch"],
        "topology.kubernetes.io/zone" => {
            &["failure-domain.beta.kubernetes.io/zone", "topology.ebs.csi.aws.com/zone"]
        }
        _ => &[],
    };
    let is_it = |name: &str| name == key || others.contains(&name);
    if let Some(selector) = spec["nodeSelector"].as_object_mut() {
        selector.retain(|name, _| !is_it(name));
    }
    let affinity = &mut spec["affinity"]["nodeAffinity"];
    let required = &mut affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"];
    let terms = required.as_array_mut().into_iter().flatten();
    for term in terms {
        if let Some(expressions) = term["matchExpressions"].as_array_mut() {
            expressions.retain(|expression| !is_it(expression["key"].as_str().unwrap_or_default()));
        }
    }
    // A term without expressions matches no node.
    if let Some(terms) = required.as_array_mut() {
        terms.retain(|term| term["matchExpressions"].as_array().is_none_or(|list| !list.is_empty()));
        if terms.is_empty() {
            affinity["requiredDuringSchedulingIgnoredDuringExecution"] = Value::Null;
        }
    }
    let preferred = affinity["preferredDuringSchedulingIgnoredDuringExecution"].as_array_mut();
    for item in preferred.into_iter().flatten() {
        if let Some(expressions) = item["preference"]["matchExpressions"].as_array_mut() {
            expressions.retain(|expression| !is_it(expression["key"].as_str().unwrap_or_default()));
        }
    }
    prune(spec);
}

/// Removes the empty objects that looking for a field has made.
fn prune(spec: &mut Value) {
    let Some(node) = spec["affinity"]["nodeAffinity"].as_object_mut() else { return };
    node.retain(|_, value| !value.is_null() && value["nodeSelectorTerms"] != Value::Null || value.is_array());
    if node.is_empty() {
        spec["affinity"].as_object_mut().expect("affinity").remove("nodeAffinity");
    }
    if spec["affinity"].as_object().is_some_and(|affinity| affinity.is_empty()) {
        spec.as_object_mut().expect("a spec").remove("affinity");
    }
}

/// Sets what the containers request of a resource together, or removes it.
fn request(spec: &mut Value, name: &str, amount: Option<&str>) {
    let mut is_at_level = false;
    for list in ["containers", "initContainers"] {
        for container in spec[list].as_array_mut().into_iter().flatten() {
            for side in ["requests", "limits"] {
                if let Some(amounts) = container["resources"][side].as_object_mut() {
                    amounts.remove(name);
                }
            }
        }
    }
    for side in ["requests", "limits"] {
        if let Some(amounts) = spec["resources"][side].as_object_mut() {
            is_at_level |= amounts.remove(name).is_some();
        }
    }
    if spec["resources"].is_null() {
        spec.as_object_mut().expect("a spec").remove("resources");
    }
    if let Some(amount) = amount {
        let at = if is_at_level { &mut *spec } else { &mut spec["containers"][0] };
        at["resources"]["requests"][name] = json!(amount);
    }
}

/// Lets the requirements of a pool on a label have these values as well.
fn allow(spec: &mut Value, key: &str, values: &[&str]) {
    if let Some(label) = spec["template"]["metadata"]["labels"].get_mut(key) {
        *label = json!(values[0]);
    }
    for requirement in spec["template"]["spec"]["requirements"].as_array_mut().into_iter().flatten() {
        if requirement["key"] != key {
            continue;
        }
        match requirement["operator"].as_str() {
            Some("In") => values.iter().for_each(|value| push(&mut requirement["values"], json!(value))),
            Some("NotIn") => {
                let excluded = requirement["values"].as_array_mut().expect("values");
                excluded.retain(|value| !values.iter().any(|allowed| value == allowed));
            }
            _ => {
                requirement["operator"] = json!("In");
                requirement["values"] = json!(values);
            }
        }
    }
}
