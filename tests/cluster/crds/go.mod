// The CRDs of Karpenter as EKS runs them: the AWS module's copies of karpenter.sh carry its extra rules.
module gpulint.dev/cluster/crds

go 1.26.10

require github.com/aws/karpenter-provider-aws v1.15.1
