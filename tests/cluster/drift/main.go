// What Karpenter's own code says of the nodes of a NodePool after an edit of it or of its EC2NodeClass: a line of JSON in, a line
// of JSON out. The first line has the labels of all instance types.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"sort"
	"strings"
	_ "unsafe" // for go:linkname

	awscrds "github.com/aws/karpenter-provider-aws/pkg/apis"
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apimachinery/pkg/runtime"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	_ "sigs.k8s.io/karpenter/pkg/controllers/nodeclaim/disruption"
	"sigs.k8s.io/karpenter/pkg/scheduling"
)

//go:linkname areStaticFieldsDrifted sigs.k8s.io/karpenter/pkg/controllers/nodeclaim/disruption.areStaticFieldsDrifted
func areStaticFieldsDrifted(*karpv1.NodePool, *karpv1.NodeClaim) cloudprovider.DriftReason

//go:linkname areRequirementsDrifted sigs.k8s.io/karpenter/pkg/controllers/nodeclaim/disruption.areRequirementsDrifted
func areRequirementsDrifted(*karpv1.NodePool, *karpv1.NodeClaim) cloudprovider.DriftReason

type side struct {
	Pool  map[string]any `json:"pool"`
	Class map[string]any `json:"class"`
}

type pair struct {
	Before side `json:"before"`
	After  side `json:"after"`
}

type answer struct {
	Pool  bool `json:"pool"`
	Class bool `json:"class"`
	// Kinds of nodes that the NodePool has before, and how many of them no longer meet the requirements.
	Nodes int `json:"nodes"`
	Drift int `json:"drift"`
}

func main() {
	structures := map[string]*schema.Structural{}
	for _, crd := range awscrds.CRDs {
		at := slices.IndexFunc(crd.Spec.Versions, func(version apiextensionsv1.CustomResourceDefinitionVersion) bool {
			return version.Name == "v1"
		})
		if at < 0 {
			continue
		}
		var internal apiextensions.JSONSchemaProps
		must(apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(crd.Spec.Versions[at].Schema.OpenAPIV3Schema, &internal, nil))
		structural, err := schema.NewStructural(&internal)
		must(err)
		structures[crd.Spec.Names.Kind] = structural
	}
	// As the API server stores it: without unknown fields, with the defaults.
	stored := func(kind string, object map[string]any, into any) {
		pruning.Prune(object, structures[kind], true)
		defaulting.Default(object, structures[kind])
		must(runtime.DefaultUnstructuredConverter.FromUnstructured(object, into))
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<28)
	lines.Scan()
	var types []map[string]string
	must(json.Unmarshal(lines.Bytes(), &types))
	out := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var asked pair
		must(json.Unmarshal(lines.Bytes(), &asked))
		var before, after karpv1.NodePool
		var oldClass, newClass awsv1.EC2NodeClass
		stored("NodePool", asked.Before.Pool, &before)
		stored("NodePool", asked.After.Pool, &after)
		stored("EC2NodeClass", asked.Before.Class, &oldClass)
		stored("EC2NodeClass", asked.After.Class, &newClass)
		result := answer{Class: oldClass.Hash(nil) != newClass.Hash(nil)}
		for _, claim := range claims(&before, &after, types) {
			result.Nodes++
			annotate(&after)
			result.Pool = areStaticFieldsDrifted(&after, claim) != ""
			if areRequirementsDrifted(&after, claim) != "" {
				result.Drift++
			}
		}
		must(out.Encode(result))
	}
	must(lines.Err())
}

// The kinds of nodes that a NodePool can have, as far as the requirements of both versions tell them apart.
func claims(before, after *karpv1.NodePool, types []map[string]string) []*karpv1.NodeClaim {
	template := before.Spec.Template
	keys := map[string]map[string]bool{}
	for _, pool := range []*karpv1.NodePool{before, after} {
		for _, requirement := range pool.Spec.Template.Spec.Requirements {
			if keys[requirement.Key] == nil {
				keys[requirement.Key] = map[string]bool{}
			}
			for _, value := range requirement.Values {
				keys[requirement.Key][value] = true
			}
		}
	}
	wanted := scheduling.NewNodeSelectorRequirementsWithMinValues(template.Spec.Requirements...)
	wanted.Add(scheduling.NewLabelRequirements(template.Labels).Values()...)
	kinds := []map[string]string{}
	seen := map[string]bool{}
	for _, instance := range types {
		labels := map[string]string{}
		for key, value := range instance {
			if keys[key] != nil {
				labels[key] = value
			}
		}
		if text := fmt.Sprint(labels); !seen[text] {
			seen[text] = true
			kinds = append(kinds, labels)
		}
	}
	// Labels that do not come with the instance type: each value that is named, and one that is not.
	with := func(key string, values []string) {
		var all []map[string]string
		for _, labels := range kinds {
			for _, value := range values {
				more := map[string]string{key: value}
				for key, value := range labels {
					more[key] = value
				}
				all = append(all, more)
			}
		}
		kinds = all
	}
	sorted := []string{}
	for key := range keys {
		sorted = append(sorted, key)
	}
	sort.Strings(sorted)
	for _, key := range sorted {
		named := []string{}
		for value := range keys[key] {
			named = append(named, value)
		}
		switch {
		case key == karpv1.CapacityTypeLabelKey:
			with(key, []string{karpv1.CapacityTypeOnDemand, karpv1.CapacityTypeSpot})
		case key == corev1.LabelTopologyZone:
			with(key, append(named, "us-east-1f"))
		case key == corev1.LabelOSStable:
			with(key, []string{"linux"})
		case strings.HasPrefix(key, "example.com/") && template.Labels[key] == "":
			// Karpenter gives a node a value that its pool admits, one that pods ask for or a random number, and no label
			// that the pool does not ask for.
			own := wanted[key]
			if own == nil || own.Operator() == corev1.NodeSelectorOpDoesNotExist {
				continue
			}
			with(key, slices.DeleteFunc(append(named, "8191"), func(value string) bool { return !own.Has(value) }))
		}
	}
	annotate(before)
	var all []*karpv1.NodeClaim
	for _, labels := range kinds {
		claim := &karpv1.NodeClaim{}
		claim.Annotations = before.Annotations
		claim.Labels = labels
		for key, value := range template.Labels {
			claim.Labels[key] = value
		}
		if areRequirementsDrifted(before, claim) == "" {
			all = append(all, claim)
		}
	}
	return all
}

func annotate(pool *karpv1.NodePool) {
	pool.Annotations = map[string]string{
		karpv1.NodePoolHashAnnotationKey:        pool.Hash(),
		karpv1.NodePoolHashVersionAnnotationKey: karpv1.NodePoolHashVersion,
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
