//! `gpulint why` from outside: the names of workloads, the output, exit codes.

use serde_json::Value;

use crate::support::Folder;

const POOLS: &str = "\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: gpu-spot
spec:
  weight: 100
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
      taints:
        - {key: nvidia.com/gpu, effect: NoSchedule}
        - {key: dedicated, value: training, effect: NoSchedule}
      requirements:
        - {key: karpenter.sh/capacity-type, operator: In, values: [spot]}
        - {key: karpenter.k8s.aws/instance-family, operator: In, values: [g6]}
---
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata:
  name: gpu
spec:
  amiSelectorTerms: [{alias: al2023@v20250807}]
";

const SERVING: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: llm
  namespace: ml
spec:
  selector: {matchLabels: {app: llm}}
  template:
    metadata: {labels: {app: llm}}
    spec:
      containers:
        - name: server
          resources:
            limits: {nvidia.com/gpu: 1}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: train
  namespace: ml
spec:
  template:
    spec:
      tolerations:
        - {key: dedicated, operator: Exists}
      containers:
        - name: trainer
          resources:
            limits: {nvidia.com/gpu: 4}
";

fn folder() -> Folder {
    Folder::new().with("pools.yaml", POOLS).with("apps/serving.yaml", SERVING)
}

/// The answer is valid under the schema that the binary prints.
#[test]
fn what_keeps_a_pod_out_is_said_with_the_change() {
    folder()
        .run(&["why", "deployment/llm"])
        .exits(1)
        .prints("Deployment ml/llm (apps/serving.yaml:2) does not fit the NodePool gpu-spot\n")
        .prints("needs 1 nvidia.com/gpu\n")
        .prints("1 change")
        .prints("to fit gpu-spot:")
        .prints("tolerate `dedicated=training:NoSchedule`  (apps/serving.yaml:10)")
        .prints("or remove the taint `dedicated=training:NoSchedule`  (pools.yaml:12)");
}

#[test]
fn a_pod_is_not_told_to_do_without_its_gpus() {
    let general = "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: general}\nspec:\n  weight: 100\n  template:\n    spec:\n      \
                   nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}\n      requirements:\n        \
                   - {key: node.kubernetes.io/instance-type, operator: In, values: [m5.large]}\n        \
                   - {key: karpenter.k8s.aws/instance-category, operator: In, values: [m]}\n        \
                   - {key: karpenter.k8s.aws/instance-family, operator: In, values: [m5]}\n        \
                   - {key: karpenter.k8s.aws/instance-size, operator: In, values: [large]}\n";
    let run = folder().with("general.yaml", general).run(&["why", "deployment/llm"]);
    // One change is enough for either pool, and a pod without GPUs is another one.
    assert!(run.out.contains("no instance type of the pool has `nvidia.com/gpu`"), "{run:#?}");
    assert!(run.out.contains("to fit gpu-spot:") && !run.out.contains("do not ask for"), "{run:#?}");
}

#[test]
fn a_pod_that_fits_gets_types_with_prices() {
    let run = folder().run(&["why", "ml/job/train"]).exits(0);
    let run = run
        .prints("Job ml/train (apps/serving.yaml:17) goes to the NodePool gpu-spot\n")
        .prints("g6.12xlarge                4.602     48     192 GiB  4 x l4, 22 GiB each")
        .prints("on-demand list price of us-east-1 on 2026-07-20; Spot prices are not known");
    assert!(run.out.lines().all(|line| line.chars().count() <= 80), "{run:#?}");
}

#[test]
fn limits_are_compared_with_all_replicas_and_long_reasons_stand_below_the_table() {
    let general = "---\napiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: general-purpose-nodes-for-batch}\nspec:\n  template:\n    spec:\n      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}\n      requirements:\n        - {key: karpenter.k8s.aws/instance-family, operator: In, values: [m7i]}\n";
    let serving = SERVING.replacen("  selector:", "  replicas: 3\n  selector:", 1).replacen(
        "      containers:",
        "      tolerations: [{operator: Exists}]\n      containers:",
        1,
    );
    let pools = POOLS.replace("  weight: 100\n", "  weight: 100\n  limits: {nvidia.com/gpu: 1}\n");
    let pools = format!("{pools}{general}");
    let folder = Folder::new().with("pools.yaml", pools).with("apps/serving.yaml", serving);
    let run = folder.run(&["why", "ml/deployment/llm"]).exits(0);
    let run = run.prints("  but the limits of gpu-spot have room for 1 of its 3 pods");
    let run = run
        .prints("general-purpose-nodes-for-batch       0  1 change\n      no instance type of the pool has ");
    assert!(run.out.lines().all(|line| line.chars().count() <= 80), "{run:#?}");
}

#[test]
fn the_answer_as_json() {
    let run = folder().run(&["why", "ml/job/train", "--format", "json"]).exits(0);
    let json = run.json_of("why");
    let pod = &json["pods"][0];
    assert_eq!((&pod["verdict"], &pod["pool"]), (&"fits".into(), &"gpu-spot".into()));
    let names: Vec<&str> =
        pod["instanceTypes"].as_array().unwrap().iter().filter_map(|t| t["name"].as_str()).collect();
    assert_eq!(names, ["g6.12xlarge", "g6.24xlarge", "g6.48xlarge"]);
    assert_eq!(pod["capacityTypes"], serde_json::json!(["spot"]));
    assert_eq!(json["prices"]["date"], "2026-07-20");

    let run = folder().run(&["why", "deploy/llm", "-f", "json"]).exits(1);
    let json = run.json_of("why");
    let pool = &json["pods"][0]["pools"][0];
    assert_eq!((&pool["stage"], &pool["changes"]), (&"taint".into(), &1.into()));
    let sides =
        pool["obstacles"][0]["changes"].as_array().unwrap().iter().map(|c| c["side"].as_str().unwrap());
    assert_eq!(sides.collect::<Vec<_>>(), ["pod", "pool"]);
}

#[test]
fn a_workload_is_named_in_many_ways() {
    let folder = folder();
    for (name, code) in [
        ("ml/deployment/llm", 1),
        ("Deployments/llm", 1),
        ("llm", 1),
        ("train", 0),
        ("apps/serving.yaml:2", 1),
        ("apps/serving.yaml:14", 1),
        ("apps/serving.yaml:25", 0),
    ] {
        folder.run(&["why", name]).exits(code);
        folder.run(&["why", name, "pools.yaml", "apps"]).exits(code);
    }
    // A file that is not below the paths is read as well.
    folder.run(&["why", "apps/serving.yaml:25", "pools.yaml"]).exits(0);
    folder.run_with(&["why", "-", "pools.yaml"], SERVING.split("---\n").nth(1).unwrap()).exits(0);
    let whole = format!("{POOLS}---\n{}", SERVING.split("---\n").nth(1).unwrap());
    folder.run_with(&["why", "-", "apps"], &whole).exits(0);
}

#[test]
fn each_cluster_has_its_own_answer() {
    let tolerated = POOLS.replace("        - {key: dedicated, value: training, effect: NoSchedule}\n", "");
    let folder = Folder::new()
        .with("base/serving.yaml", SERVING)
        .with("base/kustomization.yaml", "resources: [serving.yaml]\n")
        .with("clusters/prod/kustomization.yaml", "namespace: llm\nresources: [../../base, pools.yaml]\n")
        .with("clusters/prod/pools.yaml", POOLS)
        .with("clusters/stage/kustomization.yaml", "resources: [../../base, pools.yaml]\n")
        .with("clusters/stage/pools.yaml", &tolerated);
    let run = folder.run(&["why", "deployment/llm"]).exits(1);
    let run = run
        .prints("Deployment ml/llm (base/serving.yaml:2) in prod does not fit the NodePool gpu-spot\n")
        .prints("Deployment ml/llm (base/serving.yaml:2) in stage goes to the NodePool gpu-spot\n");
    assert_eq!(run.out.matches("POOL ").count(), 2, "{run:#?}");
    folder.run(&["why", "deployment/llm", "--set", "stage"]).exits(0).prints("in stage goes to");
    folder.run(&["why", "deployment/llm", "--set", "stagee"]).exits(2).complains("did you mean `stage`?");
    let json = folder.run(&["why", "deployment/llm", "-f", "json"]).exits(1).json_of("why");
    let sets: Vec<&Value> = json["pods"].as_array().unwrap().iter().map(|pod| &pod["set"]).collect();
    assert_eq!(sets, ["prod", "stage"]);
    // A workload on standard input may be in any of the sets.
    let pod = SERVING.split("---\n").nth(1).unwrap();
    folder.run_with(&["why", "-"], pod).exits(0).prints("in prod goes to").prints("in stage goes to");
}

#[test]
fn what_is_not_there_is_2() {
    let folder = folder();
    folder.run(&["why", "job/trian"]).exits(2).complains("no workload job/trian found; ");
    folder
        .run(&["why", "apps/serving.yaml"])
        .exits(2)
        .complains("names 2 workloads; give one by its place: ");
    folder.run(&["why", "job/train", "apps"]).exits(2).complains("no NodePool found in apps");
    folder
        .run(&["why", "job/train", "--pool", "gpu-spt"])
        .exits(2)
        .complains("there is no NodePool `gpu-spt`; did you mean `gpu-spot`?");
    folder.run(&["why", "job/train", "--pool", "gpu-spot"]).exits(0);
    folder.run_with(&["why", "-", "pools.yaml"], "a: b\n").exits(2).complains("no pod and no workload");
}

/// The pods of a TrainJob are those of its runtime with what the TrainJob sets.
#[test]
fn a_workload_is_taken_as_its_controller_completes_it() {
    let runtime = "\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata: {name: torch}
spec:
  template:
    spec:
      replicatedJobs:
        - name: node
          template:
            metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
            spec:
              template:
                spec:
                  tolerations: [{key: dedicated, operator: Exists}]
                  containers: [{name: node, image: 'example.com/torch:1'}]
";
    let job = |gpus: u32| {
        format!(
            "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nmetadata: {{name: tune, namespace: ml}}\nspec:\n  \
             runtimeRef: {{name: torch}}\n  trainer:\n    numNodes: 3\n    resourcesPerNode:\n      \
             limits: {{nvidia.com/gpu: {gpus}}}\n"
        )
    };
    let folder = |gpus: u32| {
        Folder::new().with("pools.yaml", POOLS).with("runtime.yaml", runtime).with("job.yaml", job(gpus))
    };
    folder(1).run(&["why", "trainjob/tune", "."]).exits(0).prints("TrainJob ml/tune (job.yaml:1)");
    folder(16).run(&["why", "trainjob/tune", "."]).exits(1).prints("16 nvidia.com/gpu");
    folder(1).run(&["pools", "--capacity", "."]).exits(0).prints("all 3 pods fit; 1 node");
}
