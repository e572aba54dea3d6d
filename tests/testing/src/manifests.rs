//! Manifests that several tests edit.

/// A pool whose first safe fix makes the second one safe.
pub const FIXABLE_POOL: &str = "\
# 😀 pools of the web team
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: web}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: web}
      requirements:
      - {key: karpenter.k8s.aws/instance-family, operator: In, values: [c6i, m6i]}
      - {key: karpenter.sh/capacity-type, operator: In, values: [\"On-Demand\"]} # 漢
  limits: {cpu: 100}
  disruption:
    consolidationPolicy: WhenEmptyOrUnderutilized # saves money
    budgets: [{nodes: 10%}]
";
