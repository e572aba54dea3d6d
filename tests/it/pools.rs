//! `gpulint pools` from outside.

use serde_json::{Value, json};

use crate::support::Folder;

const POOLS: &str = "\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: gpu
spec:
  weight: 10
  limits: {nvidia.com/gpu: 8, cpu: 1000}
  disruption:
    budgets: [{nodes: '0', schedule: '0 9 * * 1-5', duration: 8h}]
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
      taints: [{key: nvidia.com/gpu, effect: NoSchedule}]
      requirements:
        - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
        - {key: node.kubernetes.io/instance-type, operator: In, values: [g6.xlarge, g6.12xlarge]}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: nothing
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
      requirements:
        - {key: karpenter.k8s.aws/instance-gpu-name, operator: In, values: [A100]}
---
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata:
  name: gpu
spec:
  amiSelectorTerms: [{alias: al2023@v20250807}]
";

const WORKLOADS: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: llm, namespace: ml}
spec:
  replicas: 12
  selector: {matchLabels: {app: llm}}
  template:
    metadata:
      labels: {app: llm}
      annotations: {karpenter.sh/do-not-disrupt: 'true'}
    spec:
      containers:
        - name: server
          resources:
            limits: {nvidia.com/gpu: 1}
---
apiVersion: v1
kind: Pod
metadata: {name: large}
spec:
  containers:
    - name: c
      resources: {limits: {nvidia.com/gpu: 8}}
---
apiVersion: v1
kind: Pod
metadata: {name: volume}
spec:
  containers:
    - name: c
      resources: {limits: {nvidia.com/gpu: 1}}
  volumes: [{name: d, persistentVolumeClaim: {claimName: d}}]
";

fn folder() -> Folder {
    Folder::new().with("pools.yaml", POOLS).with("workloads.yaml", WORKLOADS)
}

#[test]
fn the_table_fits_a_terminal() {
    let run = folder().run(&["pools"]).exits(0);
    let run = run
        .prints("POOL     WEIGHT        $ AN HOUR  MAX GPUS      MAX $  RUNS\n")
        .prints("gpu          10      0.80 - 4.60         8       9.20     1\n")
        .prints("  admits    2 types; amd64; on-demand; $0.80 to $4.60 an hour\n")
        .prints("  GPUs      1, 4 x l4, 22 GiB each\n")
        .prints("at most about 8 GPUs, 8 nodes, $9.20 an")
        .prints("  drains    never Mon to Fri 09 to 17 UTC\n")
        .prints("Mon  ! ! ! ! ! ! ! ! ! # # # # # # # # ! ! ! ! ! ! !")
        .prints("  kept by   ml/deployment/llm: `karpenter.sh/do-not-disrupt`\n")
        .prints("  takes     ml/deployment/llm, 12 replicas, but the limits have room for 8\n")
        .prints("  closed    no instance type has")
        .prints("fit no NodePool: pod/large")
        .prints("may or may not fit: pod/volume")
        .prints("on-demand list prices of us-east-1 on 2026-07-20");
    assert!(run.out.lines().all(|line| line.chars().count() <= 80), "{run:#?}");
}

#[test]
fn the_overview_as_json() {
    let run = folder().run(&["pools", "--format", "json"]).exits(0);
    let overview = run.json_of("pools");
    let pool = &overview["pools"][0];
    assert_eq!(pool["instanceTypes"], json!(["g6.xlarge", "g6.12xlarge"]));
    assert_eq!(pool["gpus"], json!([{"name": "l4", "memoryMiB": 22888, "counts": [1, 4]}]));
    assert_eq!((&pool["atMost"]["gpus"], &pool["atMost"]["nodes"]), (&json!(8), &json!(8)));
    assert_eq!(pool["workloads"][0]["replicas"], json!({"least": 12, "most": 12}));
    assert_eq!(pool["workloads"][0]["room"], 8);
    assert_eq!(overview["fitNoPool"][0]["name"], "large");
    assert_eq!(overview["unknown"][0]["uncertainties"][0]["code"], "volumes");
}

#[test]
fn each_cluster_has_its_own_pools() {
    let folder = Folder::new()
        .with("base/work.yaml", WORKLOADS)
        .with("base/kustomization.yaml", "resources: [work.yaml]\n")
        .with("prod/kustomization.yaml", "resources: [../base, pools.yaml]\n")
        .with("prod/pools.yaml", POOLS)
        .with("stage/kustomization.yaml", "resources: [../base, pools.yaml]\n")
        .with("stage/pools.yaml", POOLS);
    let run = folder.run(&["pools"]).exits(0).prints("In prod:\n").prints("In stage:\n");
    assert_eq!(run.out.matches("Prices are").count(), 1, "{run:#?}");
    let json = folder.run(&["pools", "-f", "json"]).exits(0).json_of("pools");
    let whole = self::folder().run(&["pools", "-f", "json"]).exits(0).json_of("pools");
    let runs = |json: &Value, set: Value| -> Vec<usize> {
        let pools = json["pools"].as_array().unwrap().iter().filter(|pool| pool["set"] == set);
        pools.map(|pool| pool["workloads"].as_array().unwrap().len()).collect()
    };
    // A workload that belongs to both sets is in each once.
    assert_eq!(runs(&json, json!("prod")), runs(&whole, Value::Null));
    assert_eq!(runs(&json, json!("stage")), runs(&whole, Value::Null));
    let one = folder.run(&["pools", "--set", "stage"]).exits(0);
    assert!(!one.out.contains("In prod:"), "{one:#?}");
}

/// A pool of g6.xlarge, of which the limit allows four, and one of m5.large.
const CAPACITY: &str = "\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: gpu}
spec:
  limits: {nvidia.com/gpu: 4}
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      taints: [{key: nvidia.com/gpu, effect: NoSchedule}]
      requirements:
        - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
        - {key: node.kubernetes.io/instance-type, operator: In, values: [g6.xlarge]}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: general}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements:
        - {key: node.kubernetes.io/instance-type, operator: In, values: [m5.large]}
---
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec: {amiSelectorTerms: [{alias: al2023@v20250807}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: llm, namespace: ml}
spec:
  selector: {matchLabels: {app: llm}}
  template:
    metadata: {labels: {app: llm}}
    spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: 1}}}]}
---
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: llm, namespace: ml}
spec: {scaleTargetRef: {name: llm}, minReplicaCount: 1, maxReplicaCount: 6}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: ml}
spec:
  replicas: 4
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: c, resources: {requests: {cpu: 500m}}}]
      topologySpreadConstraints:
        - {topologyKey: topology.kubernetes.io/zone, maxSkew: 1, whenUnsatisfiable: ScheduleAnyway,
           labelSelector: {matchLabels: {app: web}}}
";

#[test]
fn whether_everything_fits_at_once() {
    let folder = Folder::new().with("a.yaml", CAPACITY);
    // 1930m of an m5.large have room for three pods with 500m.
    let run = folder
        .run(&["pools", "--capacity"])
        .exits(1)
        .prints("With the fewest replicas: all 5 pods fit; 3 nodes, $1.00 an hour ($728 a month)\n")
        .prints("With the most replicas: 2 of 10 pods do not fit; 6 nodes, $3.41 an hour ($2490 a\nmonth)\n")
        .prints("  POOL     TYPE                   NODES    PODS   GPUS  $ AN HOUR\n")
        .prints("  gpu      g6.xlarge                  4       4      4       3.22\n")
        .prints("  general  m5.large                   2       4      0       0.19\n")
        .prints("  GPUs          gpu 4 of 4\n")
        .prints("  does not fit  ml/deployment/llm, 2 of 6 pods: the limit `nvidia.com/gpu: 4` of")
        .prints("is reached (a.yaml:5)")
        .prints("  note          ml/deployment/web: its pods spread over")
        .prints("on-demand list prices of us-east-1 on 2026-07-20");
    assert!(run.out.lines().all(|line| line.chars().count() <= 80), "{run:#?}");
    let run = folder.run(&["pools", "--capacity", "--format", "json"]).exits(1);
    let report = run.json_of("pools");
    let (floor, ceiling) = (&report["capacity"][0]["floor"], &report["capacity"][0]["ceiling"]);
    assert_eq!((&floor["verdict"], &ceiling["verdict"]), (&json!("fits"), &json!("does-not-fit")));
    assert_eq!(ceiling["doNotFit"][0]["places"][0]["line"], 5);
    assert_eq!(ceiling["pools"][0], json!({"name": "gpu", "nodes": 4, "gpus": 4, "gpuLimit": 4}));
    assert_eq!(ceiling["dollarsAnHour"], json!(3.4112));
    // Below the limit everything fits.
    let folder = Folder::new().with("a.yaml", CAPACITY.replace("maxReplicaCount: 6", "maxReplicaCount: 4"));
    folder.run(&["pools", "--capacity"]).exits(0).prints("With the most replicas: all 8 pods fit; 6 nodes");
    // What is the same with the fewest and the most replicas is said once.
    let fixed = CAPACITY
        .replace("minReplicaCount: 1", "minReplicaCount: 4")
        .replace("maxReplicaCount: 6", "maxReplicaCount: 4");
    let run = Folder::new().with("a.yaml", fixed).run(&["pools", "--capacity"]).exits(0);
    let run = run.prints("With the fewest and with the most replicas: all 8 pods fit; ");
    assert_eq!(run.out.matches("With the ").count(), 1, "{run:#?}");
}

#[test]
fn pools_of_former_apis_are_named_and_not_read() {
    let former = "\
apiVersion: karpenter.sh/v1beta1
kind: NodePool
metadata: {name: beta}
spec: {template: {spec: {nodeClassRef: {name: gpu}, requirements: []}}}
---
apiVersion: karpenter.sh/v1alpha5
kind: Provisioner
metadata: {name: alpha}
spec: {requirements: []}
";
    let folder = folder().with("former.yaml", former);
    let run = folder.run(&["pools"]).exits(0);
    run.prints("  closed    NodePool of `karpenter.sh/v1beta1` is not read")
        .prints("  closed    Provisioner of `karpenter.sh/v1alpha5` is not read");
}

#[test]
fn pods_that_name_their_node_are_not_placed() {
    let named = "\
apiVersion: v1
kind: Pod
metadata: {name: placed}
spec:
  nodeName: ip-10-0-0-7.ec2.internal
  containers:
    - name: c
      resources: {limits: {nvidia.com/gpu: 1}}
";
    let run = Folder::new().with("pools.yaml", POOLS).with("pod.yaml", named).run(&["pools"]).exits(0);
    assert!(!run.out.contains("pod/placed"), "{run:#?}");
}

#[test]
fn without_a_pool_it_is_2() {
    Folder::new().with("a.yaml", WORKLOADS).run(&["pools"]).exits(2).complains("no NodePool found in .");
}
