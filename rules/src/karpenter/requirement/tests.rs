//! Special cases of combined requirements, and laws checked over generated pairs.

use super::Operator::{DoesNotExist, Exists, Gt, Gte, In, Lt, Lte, NotIn};
use super::*;

fn r(op: Operator, values: &[&str]) -> Requirement {
    Requirement::new(op, values, None)
}

#[test]
fn bounds_are_inclusive_inside() {
    assert_eq!((r(Gt, &["4"]).gte, r(Gte, &["4"]).gte), (Some(5), Some(4)));
    assert_eq!((r(Lt, &["4"]).lte, r(Lte, &["4"]).lte), (Some(3), Some(4)));
    assert_eq!(Requirement::new(Gt, &["9223372036854775807"], Some(2)), Requirement::default());
    assert!(r(Gt, &["7"]).has("8") && r(Gt, &["7"]).has("08") && r(Gt, &["7"]).has("+8"));
    assert!(!r(Gt, &["7"]).has("7") && !r(Gt, &["7"]).has("m") && !r(Gt, &["7"]).has("8.5"));
    assert!(!r(In, &["8"]).has("08"));
}

#[test]
fn operators_after_intersection() {
    assert_eq!(r(Gt, &["1"]).operator(), Exists);
    assert_eq!(r(NotIn, &[]).operator(), Exists);
    assert_eq!(r(In, &[]).operator(), DoesNotExist);
    assert_eq!(r(In, &["t4"]).intersect(&r(In, &["l4"])).operator(), DoesNotExist);
    assert_eq!(r(Gt, &["6"]).intersect(&r(Lt, &["3"])).operator(), DoesNotExist);
    assert_eq!(r(Exists, &[]).intersect(&r(NotIn, &["8"])).operator(), NotIn);
    assert_eq!(r(Gt, &["0"]).intersect(&r(NotIn, &["4"])).operator(), NotIn);
    // The excluded value is outside the bounds and is dropped.
    assert_eq!(r(Gt, &["4"]).intersect(&r(NotIn, &["1"])).operator(), Exists);
    let concrete = r(In, &["2", "8"]).intersect(&r(Gt, &["4"]));
    assert_eq!((concrete.gte, concrete.values.len(), concrete.operator()), (None, 1, In));
    let both = Requirement::new(In, &["a"], Some(1)).intersect(&Requirement::new(In, &["b"], Some(3)));
    assert_eq!((both.operator(), both.min_values), (DoesNotExist, Some(3)));
}

#[test]
fn two_exclusions_always_meet() {
    assert!(r(NotIn, &["a"]).overlaps(&r(NotIn, &["b"])));
    assert!(r(Exists, &[]).overlaps(&r(NotIn, &["a"])));
    assert!(!r(Gt, &["6"]).overlaps(&r(Lt, &["3"])));
    assert!(!r(In, &["AMD64"]).overlaps(&r(In, &["amd64"])));
    assert!(r(DoesNotExist, &[]).meets(&r(NotIn, &["a"])));
    assert!(!r(DoesNotExist, &[]).meets(&r(Exists, &[])));
    assert!(!r(DoesNotExist, &[]).meets(&r(In, &["a"])));
    assert!(!r(In, &["x86"]).meets(&r(Gt, &["1"])));
}

fn set(pairs: &[(&str, Operator, &[&str])]) -> Requirements {
    pairs.iter().map(|(key, op, values)| (*key, r(*op, values))).collect()
}

#[test]
fn a_custom_key_must_be_provided() {
    let pool = set(&[("team", In, &["a"])]);
    let clash = pool.compatible(&set(&[("tier", In, &["gpu"])])).expect_err("nobody provides it");
    assert_eq!((clash.key.as_str(), clash.ours), ("tier", None));
    assert!(pool.compatible(&set(&[("tier", Exists, &[])])).is_err());
    assert!(pool.compatible(&set(&[("tier", Gt, &["1"])])).is_err());
    assert!(pool.compatible(&set(&[("tier", NotIn, &["gpu"])])).is_ok());
    assert!(pool.compatible(&set(&[("tier", DoesNotExist, &[])])).is_ok());
    assert!(pool.compatible(&set(&[("kubernetes.io/arch", In, &["amd64"])])).is_ok());
    let clash = pool.compatible(&set(&[("team", In, &["b"])])).expect_err("another team");
    assert_eq!(clash.ours, Some(r(In, &["a"])));
    assert!(pool.intersects(&set(&[("tier", In, &["gpu"])])).is_ok());
    assert!(pool.intersects(&set(&[("team", NotIn, &["a"])])).is_err());
}

#[test]
fn old_spellings_are_the_same_key() {
    let both = set(&[("beta.kubernetes.io/arch", In, &["arm64"]), ("kubernetes.io/arch", In, &["amd64"])]);
    assert_eq!(both.len(), 1);
    assert_eq!(both.get("beta.kubernetes.io/arch").map(Requirement::operator), Some(DoesNotExist));
    assert_eq!(normalise("topology.ebs.csi.aws.com/zone"), "topology.kubernetes.io/zone");
}

#[test]
fn keys_are_known_restricted_or_custom() {
    assert!(WELL_KNOWN_AWS.is_sorted());
    for key in ["karpenter.sh/nodepool", "karpenter.k8s.aws/instance-gpu-name", "topology.k8s.aws/zone-id"] {
        assert!(is_well_known(key) && !is_restricted(key), "{key}");
    }
    for key in
        ["karpenter.sh/team", "a.karpenter.sh/x", "kubernetes.io/hostname", "karpenter.k8s.aws/ec2nodeclass"]
    {
        assert!(!is_well_known(key) && is_restricted(key), "{key}");
    }
    for key in
        ["notkarpenter.sh/x", "karpenter.sh", "instance-gpu-name", "node.kubernetes.io/instance-family"]
    {
        assert!(!is_well_known(key) && !is_restricted(key), "{key}");
    }
    assert!(!is_restricted("beta.kubernetes.io/arch"));
}

#[test]
fn empty_ranges_crash() {
    assert!(r(Lt, &["0"]).is_empty_range());
    assert!(r(Lte, &["9223372036854775807"]).is_empty_range());
    assert!(r(Gt, &["9223372036854775806"]).is_empty_range());
    assert!(r(Exists, &[]).intersect(&r(Lt, &["0"])).is_empty_range());
    for fine in
        [r(Gt, &["9223372036854775807"]), r(Lt, &["1"]), r(Exists, &[]), r(In, &["a"]), r(Lte, &["0"])]
    {
        assert!(!fine.is_empty_range(), "{fine}");
    }
}

#[test]
fn requirements_read_well() {
    assert_eq!(r(In, &["b", "a"]).to_string(), "In [a, b]");
    assert_eq!(r(Gt, &["4"]).to_string(), ">= 5");
    assert_eq!(r(Gt, &["0"]).intersect(&r(NotIn, &["4"])).to_string(), "NotIn [4] >= 1");
    assert_eq!(r(Exists, &[]).to_string(), "Exists");
    assert_eq!("Gte".parse(), Ok(Gte));
    assert_eq!("in".parse::<Operator>(), Err(UnknownOperator));
}

/// Tests every pair of a set of requirements. The order does not matter, and a value is in the intersection
/// if it is in both, except for contradictions and lost exclusions, for which Karpenter differs.
#[test]
fn laws_over_all_pairs() {
    let mut all = vec![r(Exists, &[]), r(DoesNotExist, &[])];
    let words: [&[&str]; 7] = [&["1"], &["2", "3"], &["a"], &["a", "b"], &["3", "a"], &["08"], &["8", "5"]];
    all.extend(words.iter().flat_map(|words| [r(In, words), r(NotIn, words)]));
    all.extend(["0", "2", "5"].iter().flat_map(|n| [r(Gt, &[n]), r(Lt, &[n]), r(Gte, &[n]), r(Lte, &[n])]));
    let base = all.clone();
    all.extend(base.iter().flat_map(|a| base.iter().map(|b| a.intersect(b))));
    for a in &all {
        for b in &base {
            let both = a.intersect(b);
            assert_eq!(both, b.intersect(a), "{a} and {b}");
            assert_eq!(a.overlaps(b), b.overlaps(a), "{a} and {b}");
            for value in ["1", "2", "3", "5", "8", "08", "a", "b", "", "-1"] {
                assert_eq!(both.has(value), a.has(value) && b.has(value), "{a} and {b}: {value}");
                assert!(a.overlaps(b) || !both.has(value), "{a} and {b}: {value}");
            }
            assert!(a.overlaps(b) || both.operator() == DoesNotExist, "{a} and {b}");
        }
    }
}
