// Where Karpenter's own scheduler puts pods: a line of JSON in, a line of JSON out. The first line has the rows of
// gpulint's catalogue of instance types, and their prices; each further line a set of manifests with Karpenter's settings, and the workload that is asked
// about. Every type is offered in every zone, on demand and as Spot: what can be known without asking EC2.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"sort"
	"strings"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	karpoptions "sigs.k8s.io/karpenter/pkg/operator/options"
)

type input struct {
	ID        string `json:"id"`
	Workload  string `json:"workload"`
	Manifests string `json:"manifests"`
	Settings  struct {
		FeatureGates     map[string]bool `json:"featureGates"`
		MinValuesPolicy  string          `json:"minValuesPolicy"`
		PreferencePolicy string          `json:"preferencePolicy"`
	} `json:"settings"`
}

type fit struct {
	Fits          bool     `json:"fits"`
	Pool          string   `json:"pool,omitempty"`
	Types         []string `json:"types,omitempty"`
	CapacityTypes []string `json:"capacityTypes,omitempty"`
	Zones         []string `json:"zones,omitempty"`
	Relaxed       bool     `json:"minValuesRelaxed,omitempty"`
	Reason        string   `json:"reason,omitempty"`
}

type load struct {
	Rounds int `json:"rounds"`
	// Nodes by pool, type and number of pods of each workload.
	Nodes   map[string]int `json:"nodes"`
	Pending map[string]int `json:"pending"`
}

type output struct {
	ID      string         `json:"id"`
	Refused []string       `json:"refused,omitempty"`
	Pod     *fit           `json:"pod,omitempty"`
	Pools   map[string]fit `json:"pools,omitempty"`
	First   *load          `json:"first,omitempty"`
	Load    *load          `json:"load,omitempty"`
	// Karpenter does not always decide the same: what differs.
	Unstable string `json:"unstable,omitempty"`
}

func main() {
	log.SetLogger(logr.Discard())
	// As `operator.go` of the provider does.
	karpv1.NormalizedLabels["topology.ebs.csi.aws.com/zone"] = corev1.LabelTopologyZone
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<28)
	lines.Scan()
	var known struct {
		Types  []map[string]string               `json:"types"`
		Prices map[ec2types.InstanceType]float64 `json:"prices"`
	}
	must(json.Unmarshal(lines.Bytes(), &known))
	aws := &account{prices: known.Prices, free: map[string]int{}}
	for _, row := range known.Types {
		if info, ok := described(row); ok {
			aws.types = append(aws.types, info)
		}
	}
	// No two types of the same price, so that the cheapest is always the same.
	slices.SortFunc(aws.types, func(a, b ec2types.InstanceTypeInfo) int {
		return strings.Compare(string(a.InstanceType), string(b.InstanceType))
	})
	for i, info := range aws.types {
		if _, ok := aws.prices[info.InstanceType]; !ok {
			aws.prices[info.InstanceType] = 1000
		}
		aws.prices[info.InstanceType] += float64(i) * 1e-9
	}
	out := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var asked input
		must(json.Unmarshal(lines.Bytes(), &asked))
		must(out.Encode(answer(aws, asked)))
	}
	must(lines.Err())
}

func answer(aws *account, asked input) output {
	result := output{ID: asked.ID}
	read := func(order int) *world { return newWorld(aws, asked, order) }
	whole := read(0)
	if result.Refused = whole.refused; result.Refused != nil {
		return result
	}
	// The pod alone: among all pools, then each pool as if it were the only one.
	alone := func(order int, only string) fit {
		w := read(order)
		w.only = only
		w.start()
		return w.one(asked.Workload)
	}
	one := alone(0, "")
	result.Pod = &one
	result.Pools = map[string]fit{}
	for _, pool := range whole.pools() {
		of := one
		if len(whole.pools()) > 1 {
			of = alone(0, pool)
		}
		result.Pools[pool] = fit{Fits: of.Fits, Types: of.Types, Reason: of.Reason}
	}
	first, settled := whole.load()
	result.First, result.Load = &first, &settled
	// With constraints on other pods, or pods of several workloads, again with the pods in another order.
	if again := read(1); again.isSocial() {
		if pod := alone(1, ""); !pod.same(one) {
			result.Unstable = "pod"
		}
		if other, end := again.load(); !reflect.DeepEqual(other, first) || !reflect.DeepEqual(end, settled) {
			result.Unstable = "load"
		}
	}
	return result
}

func (f fit) same(other fit) bool {
	// Of several equal domains Karpenter takes any.
	f.Reason, other.Reason, f.Zones, other.Zones = "", "", nil, nil
	return reflect.DeepEqual(f, other)
}

// isSocial says whether pods matter to each other.
func (w *world) isSocial() bool {
	return slices.ContainsFunc(w.pods, func(pod *corev1.Pod) bool {
		affinity := pod.Spec.Affinity
		return pod.Annotations[ownerOf] != w.pods[0].Annotations[ownerOf] || len(pod.Spec.TopologySpreadConstraints) > 0 ||
			affinity != nil && (affinity.PodAffinity != nil || affinity.PodAntiAffinity != nil)
	})
}

// one asks about the first pod of a workload, alone.
func (w *world) one(workload string) fit {
	at := slices.IndexFunc(w.pods, func(pod *corev1.Pod) bool { return pod.Annotations[ownerOf] == workload })
	if at < 0 {
		return fit{Reason: "no pod"}
	}
	pod := w.pods[at]
	must(w.Create(w.ctx, pod.DeepCopy()))
	if err := w.provisioner.Validate(w.ctx, pod); err != nil {
		return fit{Reason: "ignored: " + err.Error()}
	}
	results := w.solve(false)
	for _, claim := range results.NewNodeClaims {
		return of(claim)
	}
	for _, err := range results.PodErrors {
		return fit{Reason: err.Error()}
	}
	return fit{Reason: "no pool"}
}

// solve is `Provisioner.Schedule`, which shortens the list of types before one can see it.
func (w *world) solve(shortened bool) scheduling.Results {
	nodes := w.cluster.DeepCopyNodes()
	pods, err := w.provisioner.GetPendingPods(w.ctx)
	must(err)
	options := []scheduling.Options{
		scheduling.DisableReservedCapacityFallback, scheduling.NumConcurrentReconciles(1),
		scheduling.MinValuesPolicy(karpoptions.FromContext(w.ctx).MinValuesPolicy),
	}
	if karpoptions.FromContext(w.ctx).PreferencePolicy == karpoptions.PreferencePolicyIgnore {
		options = append(options, scheduling.IgnorePreferences)
	}
	scheduler, err := w.provisioner.NewScheduler(w.ctx, pods, nodes.Active(), nil, options...)
	if errors.Is(err, provisioning.ErrNodePoolsNotFound) {
		return scheduling.Results{}
	}
	must(err)
	results, err := scheduler.Solve(w.ctx, pods)
	must(err)
	if shortened {
		results = results.TruncateInstanceTypes(w.ctx, scheduling.MaxInstanceTypes)
	}
	return results
}

func of(claim *scheduling.NodeClaim) fit {
	found := fit{Fits: true, Pool: claim.NodePoolName, Relaxed: claim.Annotations[karpv1.NodeClaimMinValuesRelaxedAnnotationKey] == "true"}
	capacities, zones := map[string]bool{}, map[string]bool{}
	for _, instance := range claim.InstanceTypeOptions {
		found.Types = append(found.Types, instance.Name)
		for _, offering := range instance.Offerings.Launchable().Compatible(claim.Requirements) {
			capacities[offering.CapacityType()] = true
			zones[offering.Zone()] = true
		}
	}
	sort.Strings(found.Types)
	found.CapacityTypes, found.Zones = sorted(capacities), sorted(zones)
	return found
}

// load lets all pods wait at once: the nodes that Karpenter starts first, and those that there are when nothing changes any more.
func (w *world) load() (load, load) {
	w.start()
	for _, pod := range w.pods {
		must(w.Create(w.ctx, pod.DeepCopy()))
	}
	first, rounds := load{}, 0
	for {
		rounds++
		bound := w.launch(w.solve(true))
		if rounds == 1 {
			first = w.tally(rounds)
		}
		if bound == 0 || rounds == 40 || len(w.tally(rounds).Pending) == 0 {
			return first, w.tally(rounds)
		}
	}
}

func (w *world) tally(rounds int) load {
	found := load{Rounds: rounds, Nodes: map[string]int{}, Pending: map[string]int{}}
	var pods corev1.PodList
	must(w.List(w.ctx, &pods))
	on := map[string]map[string]int{}
	for _, pod := range pods.Items {
		workload := pod.Annotations[ownerOf]
		if pod.Spec.NodeName == "" {
			found.Pending[workload]++
			continue
		}
		if on[pod.Spec.NodeName] == nil {
			on[pod.Spec.NodeName] = map[string]int{}
		}
		on[pod.Spec.NodeName][workload]++
	}
	var nodes corev1.NodeList
	must(w.List(w.ctx, &nodes))
	for _, node := range nodes.Items {
		kind := node.Labels[karpv1.NodePoolLabelKey] + "/" + node.Labels[corev1.LabelInstanceTypeStable]
		names := []string{}
		for workload, count := range on[node.Name] {
			names = append(names, fmt.Sprintf("%s*%d", workload, count))
		}
		sort.Strings(names)
		found.Nodes[kind+" "+strings.Join(names, " ")]++
	}
	return found
}

func sorted(set map[string]bool) []string {
	list := []string{}
	for value := range set {
		list = append(list, value)
	}
	sort.Strings(list)
	return list
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
