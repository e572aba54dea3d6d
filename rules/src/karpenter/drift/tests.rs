//! What drifts nodes.

use serde_json::{Value, json};

use super::{Drift, of_pool, replaces_nodes};
use crate::platform::Version;

fn of(template: Value) -> Value {
    json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "spec": {"template": template}})
}

fn requiring(requirements: Value) -> Value {
    of(json!({"spec": {"requirements": requirements}}))
}

#[test]
fn what_is_hashed_replaces_nodes() {
    let bare = of(json!({}));
    for (template, replaced) in [
        (json!({"metadata": {"labels": {"a": "b"}}}), true),
        (json!({"metadata": {"annotations": {"a": "b"}}}), true),
        (json!({"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}), true),
        (json!({"spec": {"terminationGracePeriod": "24h"}}), true),
        (json!({"spec": {"expireAfter": "Never"}}), true),
        // The default of an absent field, and empty values.
        (json!({"spec": {"expireAfter": "720h"}}), false),
        (json!({"spec": {"taints": []}, "metadata": {"labels": {}}}), false),
    ] {
        assert_eq!(replaces_nodes(&bare, &of(template.clone())), replaced, "{template}");
    }
    let taints = |list: Value| of(json!({"spec": {"taints": list}}));
    let (a, b) = (json!({"key": "a"}), json!({"key": "b", "value": ""}));
    let turned = taints(json!([{"key": "b"}, a]));
    assert!(!replaces_nodes(&taints(json!([a, b])), &turned));
    let twice = taints(json!([a, a, b]));
    assert!(replaces_nodes(&twice, &turned) && !replaces_nodes(&twice, &taints(json!([b]))));
    let mut outside = bare.clone();
    outside["spec"]["limits"] = json!({"cpu": 1});
    outside["spec"]["disruption"] = json!({"consolidateAfter": "1m"});
    assert!(!replaces_nodes(&bare, &outside));
}

#[test]
fn requirements_replace_nodes_that_no_longer_meet_them() {
    let family = |values: Value| json!({"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": values});
    let (one, two) =
        (requiring(json!([family(json!(["g5"]))])), requiring(json!([family(json!(["g5", "g6"]))])));
    assert!(replaces_nodes(&two, &one));
    assert!(!replaces_nodes(&one, &two));
    assert!(replaces_nodes(&requiring(json!([])), &one));
    // No node has an instance family that does not exist, so removing it replaces no nodes.
    let misspelt = requiring(json!([family(json!(["g5", "g6x"]))]));
    assert!(!replaces_nodes(&misspelt, &one));
    assert!(!replaces_nodes(&requiring(json!([family(json!(["g6x"]))])), &two));
    assert!(!replaces_nodes(&one, &requiring(json!([]))));
    let not = json!({"key": "example.com/old", "operator": "DoesNotExist"});
    assert!(!replaces_nodes(&requiring(json!([])), &requiring(json!([not]))));
}

#[test]
fn a_class_is_hashed_but_for_what_it_selects() {
    let class = |mut spec: Value| {
        if spec["amiSelectorTerms"].is_null() {
            spec["amiSelectorTerms"] = json!([{"alias": "al2023@latest"}]);
        }
        json!({"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "spec": spec})
    };
    let bare = class(json!({"role": "a"}));
    for (spec, replaced) in [
        (json!({"role": "a", "amiSelectorTerms": [{"alias": "al2023@v1"}], "amiFamily": "AL2023"}), false),
        (json!({"role": "a", "metadataOptions": {"httpTokens": "required"}}), false),
        (json!({"role": "a", "metadataOptions": {"httpTokens": "optional"}}), true),
        (json!({"role": "b"}), true),
        (json!({"role": "a", "tags": {"a": "b"}}), true),
    ] {
        assert_eq!(replaces_nodes(&bare, &class(spec.clone())), replaced, "{spec}");
    }
}

/// A pool, and how the nodes of it drift if its template becomes another.
fn drift(before: Value, after: Value) -> Drift {
    of_pool((&requiring(before), None), (&requiring(after), None), Version::new(1, 15))
}

#[test]
fn requirements_drift_some_nodes_or_all() {
    let on = |key: &str, values: Value| json!({"key": key, "operator": "In", "values": values});
    let family = |values: Value| on("karpenter.k8s.aws/instance-family", values);
    let zones = |values: Value| on("topology.kubernetes.io/zone", values);
    let tier = |operator: &str, values: Value| json!({"key": "example.com/tier", "operator": operator, "values": values});
    for (before, after, expected) in [
        (json!([family(json!(["g5", "g6"]))]), json!([family(json!(["g6"]))]), Drift::Some),
        (json!([family(json!(["g5"]))]), json!([family(json!(["g6"]))]), Drift::All),
        (json!([family(json!(["g5"]))]), json!([family(json!(["g6", "g5"]))]), Drift::None),
        (json!([]), json!([zones(json!(["us-east-1a"]))]), Drift::Some),
        (json!([zones(json!(["us-east-1a"]))]), json!([zones(json!(["us-east-1b"]))]), Drift::All),
        // Nodes do not have a custom label that no requirement names.
        (json!([]), json!([tier("In", json!(["gold"]))]), Drift::All),
        (json!([]), json!([tier("NotIn", json!(["gold"]))]), Drift::None),
        (json!([tier("In", json!(["gold", "iron"]))]), json!([tier("NotIn", json!(["gold"]))]), Drift::Some),
        (json!([tier("In", json!(["gold"]))]), json!([]), Drift::None),
        (json!([tier("DoesNotExist", json!([]))]), json!([tier("In", json!(["gold"]))]), Drift::All),
        (json!([tier("NotIn", json!(["gold"]))]), json!([tier("DoesNotExist", json!([]))]), Drift::All),
        // Every node has a zone.
        (json!([]), json!([{"key": "topology.kubernetes.io/zone", "operator": "Exists"}]), Drift::None),
    ] {
        assert_eq!(drift(before.clone(), after.clone()), expected, "{before} {after}");
    }
}

#[test]
fn a_class_without_reservations_has_no_reserved_nodes() {
    let capacity = |values: Value| {
        requiring(json!([{"key": "karpenter.sh/capacity-type", "operator": "In", "values": values}]))
    };
    let (both, reserved) = (capacity(json!(["on-demand", "reserved"])), capacity(json!(["reserved"])));
    let class = |terms: Value| json!({"spec": {"capacityReservationSelectorTerms": terms}});
    let drift = |class: &Value| of_pool((&both, Some(class)), (&reserved, Some(class)), Version::new(1, 15));
    assert_eq!(drift(&class(json!([]))), Drift::All);
    assert_eq!(drift(&class(json!([{"id": "cr-0123"}]))), Drift::Some);
}

#[test]
fn some_edits_are_refused() {
    let pool = |spec: Value| json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "spec": spec});
    let with = |spec: Value, minor: u32| {
        of_pool((&pool(json!({})), None), (&pool(spec), None), Version::new(1, minor))
    };
    assert_eq!(with(json!({"replicas": 2}), 15), Drift::Refused);
    assert_eq!(with(json!({"replicas": 2}), 7), Drift::None);
    let of_group = |group: &str| pool(json!({"template": {"spec": {"nodeClassRef": {"group": group}}}}));
    let moved = |minor: u32| {
        let (old, new) = (of_group("karpenter.k8s.aws"), of_group("example.com"));
        of_pool((&old, None), (&new, None), Version::new(1, minor))
    };
    assert_eq!(moved(1), Drift::Refused);
    assert_eq!(moved(0), Drift::All);
}

#[test]
fn zero_values_of_pointers_are_hashed() {
    let class = |spec: Value| {
        let mut spec = spec;
        spec["amiSelectorTerms"] = json!([{"alias": "al2023@latest"}]);
        json!({"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "spec": spec})
    };
    let bare = class(json!({}));
    let volume = |ebs: Value| json!({"blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": ebs}]});
    for (spec, drifts) in [
        (json!({"userData": ""}), true),
        (json!({"detailedMonitoring": false}), true),
        (json!({"associatePublicIPAddress": false}), true),
        (json!({"enclaveOptions": {"enabled": false}}), true),
        (json!({"tags": {}}), false),
        (json!({"tags": {"a": ""}}), true),
        (json!({"kubelet": {}}), false),
        (json!({"role": ""}), false),
        (json!({"blockDeviceMappings": []}), false),
        (json!({"amiFamily": "AL2023"}), false),
        (json!({"amiFamily": "Bottlerocket"}), true),
        (json!({"metadataOptions": {"httpTokens": "required", "httpEndpoint": "enabled"}}), false),
    ] {
        assert_eq!(replaces_nodes(&bare, &class(spec.clone())), drifts, "{spec}");
    }
    for (before, after, drifts) in [
        (json!({"volumeSize": "1024Gi"}), json!({"volumeSize": "1Ti"}), false),
        (json!({"volumeSize": "1Ti"}), json!({"volumeSize": "1Ti", "deleteOnTermination": false}), true),
    ] {
        assert_eq!(replaces_nodes(&class(volume(before.clone())), &class(volume(after))), drifts, "{before}");
    }
    // The text of the kubelet counts, with the order of its lists.
    let dns = |addresses: Value| class(json!({"kubelet": {"clusterDNS": addresses}}));
    let (a, b) = (dns(json!(["10.0.0.1", "10.0.0.2"])), dns(json!(["10.0.0.2", "10.0.0.1"])));
    assert!(replaces_nodes(&a, &b));
    let pool = requiring(json!([]));
    let at = |minor| of_pool((&pool, Some(&a)), (&pool, Some(&b)), Version::new(1, minor));
    assert_eq!([at(14), at(15)], [Drift::None, Drift::All]);
}

#[test]
fn durations_compare_by_length() {
    let expiring = |text: &str| of(json!({"spec": {"expireAfter": text, "terminationGracePeriod": "1h"}}));
    assert!(!replaces_nodes(&expiring("720h"), &expiring("43200m")));
    assert!(replaces_nodes(&expiring("720h"), &expiring("721h")));
    let empty_label = of(json!({"metadata": {"labels": {"a": ""}}}));
    assert!(replaces_nodes(&of(json!({})), &empty_label));
}

#[test]
fn each_api_has_its_own_hash() {
    let beta = |template: Value| json!({"apiVersion": "karpenter.sh/v1beta1", "kind": "NodePool", "spec": {"template": template}});
    let alpha =
        |spec: Value| json!({"apiVersion": "karpenter.sh/v1alpha5", "kind": "Provisioner", "spec": spec});
    let kubelet = json!({"maxPods": 30});
    let zones = |operator: &str| json!([{"key": "topology.kubernetes.io/zone", "operator": operator, "values": ["us-east-1a"]}]);
    for (before, after, drifts) in [
        (beta(json!({})), beta(json!({"spec": {"kubelet": kubelet}})), true),
        // The field is not one of `v1beta1`.
        (beta(json!({})), beta(json!({"spec": {"expireAfter": "24h"}})), false),
        (alpha(json!({})), alpha(json!({"labels": {"team": "ml"}})), true),
        (alpha(json!({})), alpha(json!({"kubeletConfiguration": kubelet})), true),
        (alpha(json!({})), alpha(json!({"taints": [{"key": "a", "effect": "NoSchedule"}]})), true),
        (
            alpha(json!({})),
            alpha(json!({"providerRef": {"name": "gpu"}, "ttlSecondsUntilExpired": 60})),
            false,
        ),
        (alpha(json!({})), alpha(json!({"requirements": zones("In")})), true),
        (alpha(json!({"requirements": zones("In")})), alpha(json!({"requirements": zones("Exists")})), false),
    ] {
        assert_eq!(replaces_nodes(&before, &after), drifts, "{before} {after}");
    }
    let class = |spec: Value| json!({"apiVersion": "karpenter.k8s.aws/v1alpha1", "kind": "AWSNodeTemplate", "spec": spec});
    for (spec, drifts) in [
        (json!({"amiFamily": "Bottlerocket"}), true),
        (json!({"tags": {"team": "ml"}}), true),
        (
            json!({"amiSelector": {"team": "ml"}, "subnetSelector": {"team": "ml"}, "launchTemplate": "own"}),
            false,
        ),
    ] {
        assert_eq!(replaces_nodes(&class(json!({})), &class(spec.clone())), drifts, "{spec}");
    }
}
