//! KEDA 1.

use super::{becomes, converted, is_left};

const OLD: &str = "apiVersion: keda.k8s.io/v1alpha1\nkind: ScaledObject";

#[test]
fn the_target_is_renamed() {
    becomes(
        OLD,
        "  scaleType: deployment\n  scaleTargetRef: {deploymentName: llm, containerName: main}\n  triggers: []\n",
        "  scaleTargetRef: {name: llm, envSourceContainerName: main}\n  triggers: []\n",
    );
    is_left(OLD, "  scaleTargetRef: {deploymentName: a, name: b}\n", "both written");
    is_left(OLD, "  scaleType: ${TYPE}\n", "KEDA 1 knew");
}

#[test]
fn a_job_becomes_a_scaled_job() {
    let job = "jobTargetRef: {template: {spec: {containers: []}}}";
    let text = format!(
        "{OLD}\nmetadata: {{name: a}}\nspec:\n  scaleType: job\n  {job}\n  cooldownPeriod: 300\n  minReplicaCount: 0\n  maxReplicaCount: 9\n"
    );
    let made = converted(&text).expect("it converts");
    assert_eq!(made[0]["kind"], "ScaledJob");
    assert_eq!(
        made[0]["spec"],
        serde_json::json!({
            "jobTargetRef": {"template": {"spec": {"containers": []}}}, "maxReplicaCount": 9
        })
    );
    is_left(OLD, "  scaleType: job\n", "jobTargetRef");
}

#[test]
fn a_trigger_authentication_moves_alone() {
    let made = converted(
        "apiVersion: keda.k8s.io/v1alpha1\nkind: TriggerAuthentication\nmetadata: {name: a}\nspec: {podIdentity: {provider: none}}\n",
    );
    assert_eq!(made.expect("it converts")[0]["apiVersion"], "keda.sh/v1alpha1");
}
