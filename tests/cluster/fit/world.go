package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awscrds "github.com/aws/karpenter-provider-aws/pkg/apis"
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	awscache "github.com/aws/karpenter-provider-aws/pkg/cache"
	kubeletcel "github.com/aws/karpenter-provider-aws/pkg/cel"
	"github.com/aws/karpenter-provider-aws/pkg/controllers/nodeclass"
	awsoptions "github.com/aws/karpenter-provider-aws/pkg/operator/options"
	"github.com/aws/karpenter-provider-aws/pkg/providers/amifamily"
	"github.com/aws/karpenter-provider-aws/pkg/providers/arczonalshift"
	"github.com/aws/karpenter-provider-aws/pkg/providers/instance/filter"
	"github.com/aws/karpenter-provider-aws/pkg/providers/instancetype"
	opstatus "github.com/awslabs/operatorpkg/status"
	"github.com/patrickmn/go-cache"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/client-go/kubernetes/scheme"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/apis/v1alpha1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/cloudprovider/overlay"
	"sigs.k8s.io/karpenter/pkg/controllers/nodeoverlay"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/events"
	karpoptions "sigs.k8s.io/karpenter/pkg/operator/options"
	requirements "sigs.k8s.io/karpenter/pkg/scheduling"
	"sigs.k8s.io/yaml"
)

// The annotation that names the workload of a pod.
const ownerOf = "workload"

// world is a cluster with Karpenter in it.
type world struct {
	client.Client
	ctx     context.Context
	aws     *account
	objects []client.Object
	pods    []*corev1.Pod
	refused []string
	// The only NodePool, where one is asked about alone.
	only        string
	provider    cloudprovider.CloudProvider
	cluster     *state.Cluster
	provisioner *provisioning.Provisioner
}

type crd struct {
	structure *schema.Structural
	schema    validation.SchemaValidator
	rules     *cel.Validator
}

var crds = func() map[string]crd {
	all := map[string]crd{}
	for _, definition := range awscrds.CRDs {
		version := definition.Spec.Versions[0]
		var internal apiextensions.JSONSchemaProps
		must(apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(version.Schema.OpenAPIV3Schema, &internal, nil))
		structure, err := schema.NewStructural(&internal)
		must(err)
		validator, _, err := validation.NewSchemaValidator(&internal)
		must(err)
		all[definition.Spec.Names.Kind] = crd{structure, validator, cel.NewValidator(structure, true, celconfig.PerCallLimit)}
	}
	return all
}()

var celEnv = func() *kubeletcel.CELEnvironment {
	env, err := kubeletcel.NewEnvironment()
	must(err)
	return env
}()

// The provider's instance types are made once for each class of its kind, and not for each set.
var instanceTypes *instancetype.DefaultProvider

type silent struct{}

func (silent) Publish(...events.Event) {}

// newWorld reads a set. `order` is one of the orders in which a real cluster may have the pods.
func newWorld(aws *account, asked input, order int) *world {
	w := &world{aws: aws}
	options := &karpoptions.Options{
		CPURequests: 1000, PreferencePolicy: karpoptions.PreferencePolicyRespect, MinValuesPolicy: karpoptions.MinValuesPolicyStrict,
		IgnoreDRARequests: true, FeatureGates: karpoptions.DefaultFeatureGates(),
	}
	gates := []string{}
	for name, on := range asked.Settings.FeatureGates {
		gates = append(gates, fmt.Sprintf("%s=%t", name, on))
	}
	if len(gates) > 0 {
		parsed, err := karpoptions.ParseFeatureGates(strings.Join(gates, ","))
		must(err)
		options.FeatureGates = parsed
	}
	awsv1.CapacityReservationsEnabled = options.FeatureGates.ReservedCapacity
	if policy := asked.Settings.MinValuesPolicy; policy != "" {
		options.MinValuesPolicy = karpoptions.MinValuesPolicy(policy)
	}
	if policy := asked.Settings.PreferencePolicy; policy != "" {
		options.PreferencePolicy = karpoptions.PreferencePolicy(policy)
	}
	w.ctx = karpoptions.ToContext(context.Background(), options)
	w.ctx = awsoptions.ToContext(w.ctx, &awsoptions.Options{ClusterName: "c", VMMemoryOverheadPercent: 0.075})
	for _, text := range strings.Split("\n"+asked.Manifests, "\n---") {
		object := map[string]any{}
		data, err := yaml.YAMLToJSON([]byte(text))
		must(err)
		must(utiljson.Unmarshal(data, &object))
		if len(object) > 0 {
			w.read(object)
		}
	}
	w.bindClaims()
	w.objects = append(w.objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default", Labels: map[string]string{"kubernetes.io/metadata.name": "default"}}})
	for i, pod := range w.pods {
		at := i
		if order%2 == 1 {
			at = len(w.pods) - i
		}
		pod.UID = types.UID(fmt.Sprintf("%08d", at))
	}
	return w
}

// read takes an object as the API server stores it, or says why that refuses it.
func (w *world) read(object map[string]any) {
	kind := object["kind"].(string)
	as := unstructured.Unstructured{Object: object}
	if as.GetUID() == "" {
		as.SetUID(types.UID(kind + as.GetNamespace() + as.GetName()))
	}
	if crd, ok := crds[kind]; ok && strings.Contains(as.GetAPIVersion(), "karpenter") {
		pruning.Prune(object, crd.structure, true)
		defaulting.Default(object, crd.structure)
		all := validation.ValidateCustomResource(nil, object, crd.schema)
		if len(all) == 0 {
			all, _ = crd.rules.Validate(w.ctx, nil, crd.structure, object, nil, celconfig.RuntimeCELCostBudget)
		}
		for _, err := range all {
			w.refused = append(w.refused, as.GetName()+": "+err.Error())
		}
	}
	gvk := as.GroupVersionKind()
	typed, err := scheme.Scheme.New(gvk)
	if err != nil {
		return
	}
	must(runtime.DefaultUnstructuredConverter.FromUnstructured(object, typed))
	entry := typed.(client.Object)
	if namespaced := slices.Contains([]string{"Deployment", "StatefulSet", "DaemonSet", "Job", "ReplicaSet", "Pod", "PersistentVolumeClaim"}, kind); namespaced && entry.GetNamespace() == "" {
		entry.SetNamespace("default")
	}
	w.objects = append(w.objects, entry)
	many := func(count *int32) int {
		if count == nil {
			return 1
		}
		return int(*count)
	}
	switch of := typed.(type) {
	case *appsv1.Deployment:
		w.add(of, many(of.Spec.Replicas), of.Spec.Template, "pod-template-hash")
	case *appsv1.ReplicaSet:
		w.add(of, many(of.Spec.Replicas), of.Spec.Template, "")
	case *appsv1.StatefulSet:
		w.add(of, many(of.Spec.Replicas), of.Spec.Template, "controller-revision-hash")
	case *batchv1.Job:
		w.add(of, many(of.Spec.Parallelism), of.Spec.Template, "")
	case *storagev1.StorageClass:
		if of.VolumeBindingMode == nil {
			mode := storagev1.VolumeBindingImmediate
			of.VolumeBindingMode = &mode
		}
	case *awsv1.EC2NodeClass:
		for key, value := range of.Annotations {
			if id, ok := strings.CutPrefix(key, "oracle/"); ok {
				w.aws.free[id], _ = strconv.Atoi(value)
			}
		}
		found(of)
	}
}

// add makes the pods of a workload as its controller and the API server do.
func (w *world) add(owner client.Object, count int, template corev1.PodTemplateSpec, hash string) {
	for i := range count {
		pod := &corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
		pod.Name, pod.Namespace = fmt.Sprintf("%s-%d", owner.GetName(), i), owner.GetNamespace()
		pod.Annotations = map[string]string{ownerOf: owner.GetName()}
		if hash != "" {
			pod.Labels = withLabel(pod.Labels, hash, owner.GetName())
		}
		if hash == "controller-revision-hash" {
			pod.Labels["apps.kubernetes.io/pod-index"] = strconv.Itoa(i)
			pod.Labels["statefulset.kubernetes.io/pod-name"] = pod.Name
		}
		for _, containers := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
			for i := range containers {
				resources := &containers[i].Resources
				for name, quantity := range resources.Limits {
					if _, ok := resources.Requests[name]; !ok {
						if resources.Requests == nil {
							resources.Requests = corev1.ResourceList{}
						}
						resources.Requests[name] = quantity
					}
				}
			}
		}
		podLevel(pod)
		pod.Status.Phase = corev1.PodPending
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
		w.pods = append(w.pods, pod)
	}
}

// podLevel fills in the requests of a pod from those of its containers, then from its limits.
func podLevel(pod *corev1.Pod) {
	if pod.Spec.Resources == nil || len(pod.Spec.Resources.Limits) == 0 {
		return
	}
	requests := corev1.ResourceList{}
	for name, quantity := range resourcehelper.AggregateContainerRequests(pod, resourcehelper.PodResourcesOptions{}) {
		if name == corev1.ResourceCPU || name == corev1.ResourceMemory {
			requests[name] = quantity
		}
	}
	for name, quantity := range pod.Spec.Resources.Limits {
		if _, ok := requests[name]; !ok && resourcehelper.IsSupportedPodLevelResource(name) {
			requests[name] = quantity
		}
	}
	for name, quantity := range pod.Spec.Resources.Requests {
		requests[name] = quantity
	}
	pod.Spec.Resources.Requests = requests
}

// bindClaims does what the API server and the controllers of workloads and volumes do with claims: those of a pod are made with it, the
// default class is written into them, and what names a volume that is there is bound to it. Nobody makes new volumes.
func (w *world) bindClaims() {
	claim := func(pod *corev1.Pod, name string, spec corev1.PersistentVolumeClaimSpec) {
		made := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: pod.Namespace}, Spec: *spec.DeepCopy()}
		w.objects = append(w.objects, made)
	}
	for _, pod := range w.pods {
		for _, volume := range pod.Spec.Volumes {
			if volume.Ephemeral != nil && volume.Ephemeral.VolumeClaimTemplate != nil {
				claim(pod, pod.Name+"-"+volume.Name, volume.Ephemeral.VolumeClaimTemplate.Spec)
			}
		}
		for _, object := range w.objects {
			set, ok := object.(*appsv1.StatefulSet)
			if !ok || set.Name != pod.Annotations[ownerOf] {
				continue
			}
			for _, template := range set.Spec.VolumeClaimTemplates {
				name := template.Name + "-" + pod.Name
				claim(pod, name, template.Spec)
				source := corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}
				pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: template.Name, VolumeSource: source})
			}
		}
	}
	var usual *string
	volumes := map[string]bool{}
	for _, object := range w.objects {
		switch of := object.(type) {
		case *storagev1.StorageClass:
			if of.Annotations["storageclass.kubernetes.io/is-default-class"] == "true" {
				usual = &of.Name
			}
		case *corev1.PersistentVolume:
			volumes[of.Name] = true
		}
	}
	for _, object := range w.objects {
		of, ok := object.(*corev1.PersistentVolumeClaim)
		if !ok {
			continue
		}
		if of.Spec.StorageClassName == nil {
			of.Spec.StorageClassName = usual
		}
		if volumes[of.Spec.VolumeName] && of.Status.Phase == "" {
			of.Annotations = withLabel(of.Annotations, "pv.kubernetes.io/bind-completed", "yes")
		}
	}
}

func withLabel(labels map[string]string, key, value string) map[string]string {
	if labels == nil {
		labels = map[string]string{}
	}
	labels[key] = value
	return labels
}

func (w *world) pools() []string {
	names := []string{}
	for _, object := range w.objects {
		if pool, ok := object.(*karpv1.NodePool); ok {
			names = append(names, pool.Name)
		}
	}
	return names
}

// start brings up Karpenter: what its controllers write into the status of each object, and its caches.
func (w *world) start() {
	wall := clock.RealClock{}
	builder := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithStatusSubresource(&karpv1.NodePool{}, &awsv1.EC2NodeClass{}, &v1alpha1.NodeOverlay{})
	builder = builder.WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} })
	classes := map[string]*awsv1.EC2NodeClass{}
	if instanceTypes == nil {
		expiry := func() *cache.Cache { return cache.New(cache.NoExpiration, 0) }
		instanceTypes = instancetype.NewDefaultProvider(expiry(), expiry(), expiry(), w.aws, nil, w.aws, w.aws, placementGroups{},
			awscache.NewUnavailableOfferings(), instancetype.NewDefaultResolver(region, celEnv), arczonalshift.NewNoopProvider(), nil, celEnv)
		must(instanceTypes.UpdateInstanceTypes(w.ctx))
		must(instanceTypes.UpdateInstanceTypeOfferings(w.ctx))
	}
	for _, object := range w.objects {
		if class, ok := object.(*awsv1.EC2NodeClass); ok {
			classes[class.Name] = class
			check := nodeclass.NewValidationReconciler(wall, nil, nil, w.aws, nil, instanceTypes, launchTemplates{}, cache.New(time.Hour, 0), celEnv, true)
			_, _ = check.Reconcile(w.ctx, class)
		}
	}
	kept := []client.Object{}
	for _, object := range w.objects {
		if pool, ok := object.(*karpv1.NodePool); ok {
			if w.only != "" && pool.Name != w.only {
				continue
			}
			if err := pool.RuntimeValidate(w.ctx); err != nil {
				pool.StatusConditions().SetFalse(karpv1.ConditionTypeValidationSucceeded, "NodePoolValidationFailed", err.Error())
			} else {
				pool.StatusConditions().SetTrue(karpv1.ConditionTypeValidationSucceeded)
			}
			class := classes[pool.Spec.Template.Spec.NodeClassRef.Name]
			if class != nil && class.StatusConditions().IsTrue(opstatus.ConditionReady) {
				pool.StatusConditions().SetTrue(karpv1.ConditionTypeNodeClassReady)
			} else {
				pool.StatusConditions().SetFalse(karpv1.ConditionTypeNodeClassReady, "NotReady", "not ready")
			}
		}
		kept = append(kept, object)
	}
	w.Client = anyNamespace{builder.WithObjects(kept...).Build()}
	store := nodeoverlay.NewInstanceTypeStore()
	plain := provider{client: w.Client}
	w.provider = overlay.Decorate(plain, w.Client, store)
	w.cluster = state.NewCluster(wall, w.Client, w.provider)
	if karpoptions.FromContext(w.ctx).FeatureGates.NodeOverlay {
		_, err := nodeoverlay.NewController(wall, w.Client, plain, store, w.cluster).Reconcile(w.ctx, reconcile.Request{})
		must(err)
	}
	w.provisioner = provisioning.NewProvisioner(w.Client, silent{}, w.provider, w.cluster, wall, nil, nil)
}

// anyNamespace ignores, as an API server does, the namespace of what has none.
type anyNamespace struct{ client.Client }

func (c anyNamespace) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if _, ok := object.(*corev1.PersistentVolume); ok {
		key.Namespace = ""
	}
	return c.Client.Get(ctx, key, object, options...)
}

type provider struct {
	cloudprovider.CloudProvider
	client client.Client
}

func (p provider) Name() string { return "aws" }

func (p provider) GetSupportedNodeClasses() []opstatus.Object {
	return []opstatus.Object{&awsv1.EC2NodeClass{}}
}

func (p provider) GetInstanceTypes(ctx context.Context, pool *karpv1.NodePool) ([]*cloudprovider.InstanceType, error) {
	class := &awsv1.EC2NodeClass{}
	if err := p.client.Get(ctx, client.ObjectKey{Name: pool.Spec.Template.Spec.NodeClassRef.Name}, class); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	all, err := instanceTypes.List(ctx, class)
	// A type without an image starts no node, though the scheduler takes it.
	started := map[*cloudprovider.InstanceType]bool{}
	for _, types := range amifamily.MapToInstanceTypes(all, class.Status.AMIs) {
		for _, of := range types {
			started[of] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(of *cloudprovider.InstanceType) bool { return !started[of] }), err
}

// launch starts the nodes that were decided on, each of the cheapest type, and binds the pods. Says how many were bound.
func (w *world) launch(results scheduling.Results) int {
	bound := 0
	bind := func(pods []*corev1.Pod, node string) {
		for _, pod := range pods {
			stored := &corev1.Pod{}
			must(w.Get(w.ctx, client.ObjectKeyFromObject(pod), stored))
			stored.Spec.NodeName = node
			stored.Status.Conditions = nil
			must(w.Update(w.ctx, stored))
			bound++
		}
	}
	nodes := []*corev1.Node{}
	for _, existing := range results.ExistingNodes {
		bind(existing.Pods, existing.Name())
	}
	for _, planned := range results.NewNodeClaims {
		if node := w.node(planned); node != nil {
			bind(planned.Pods, node.Name)
			nodes = append(nodes, node)
		}
	}
	for _, node := range nodes {
		must(w.Create(w.ctx, node))
		must(w.cluster.UpdateNode(w.ctx, node))
	}
	var pods corev1.PodList
	must(w.List(w.ctx, &pods))
	for i := range pods.Items {
		if pods.Items[i].Spec.NodeName != "" {
			must(w.cluster.UpdatePod(w.ctx, &pods.Items[i]))
		}
	}
	return bound
}

var started = 0

func (w *world) node(planned *scheduling.NodeClaim) *corev1.Node {
	options := planned.InstanceTypeOptions
	claim := planned.ToNodeClaim()
	pool := &karpv1.NodePool{}
	must(w.Get(w.ctx, client.ObjectKey{Name: planned.NodePoolName}, pool))
	if pool.Spec.Limits.ExceededBy(w.cluster.NodePoolResourcesFor(pool.Name)) != nil {
		return nil
	}
	asked := requirements.NewNodeSelectorRequirementsWithMinValues(claim.Spec.Requirements...)
	types := []*cloudprovider.InstanceType(options)
	for _, filter := range []filter.Filter{
		filter.CompatibleLaunchableFilter(asked, claim.Spec.Resources.Requests), filter.CapacityReservationTypeFilter(asked),
		filter.CapacityBlockFilter(asked), filter.ReservedOfferingFilter(asked), filter.ExoticInstanceTypeFilter(asked),
		filter.SpotOfferingFilter(asked),
	} {
		if types, _ = filter.FilterReject(types); len(types) == 0 {
			return nil
		}
	}
	var instance *cloudprovider.InstanceType
	var offering *cloudprovider.Offering
	rank := func(o *cloudprovider.Offering) int {
		return slices.Index([]string{karpv1.CapacityTypeReserved, karpv1.CapacityTypeSpot, karpv1.CapacityTypeOnDemand}, o.CapacityType())
	}
	reserved := false
	for _, candidate := range types {
		for _, o := range candidate.Offerings.Launchable().Compatible(asked) {
			reserved = reserved || o.CapacityType() == karpv1.CapacityTypeReserved
		}
	}
	price := func(i *cloudprovider.InstanceType) float64 { return w.aws.prices[ec2types.InstanceType(i.Name)] }
	for _, candidate := range types {
		for _, o := range candidate.Offerings.Launchable().Compatible(asked) {
			if reserved && o.CapacityType() != karpv1.CapacityTypeReserved {
				continue
			}
			switch {
			case instance == nil, price(candidate) < price(instance):
			case candidate == instance && (rank(o) < rank(offering) || rank(o) == rank(offering) && o.Zone() < offering.Zone()):
			default:
				continue
			}
			instance, offering = candidate, o
		}
	}
	if instance == nil {
		return nil
	}
	if offering.CapacityType() == karpv1.CapacityTypeReserved {
		w.aws.MarkLaunched(offering.ReservationID())
	}
	started++
	name := fmt.Sprintf("node-%06d", started)
	labels := map[string]string{}
	for _, all := range []requirements.Requirements{instance.Requirements, offering.Requirements} {
		for key, requirement := range all {
			if requirement.Operator() == corev1.NodeSelectorOpIn && requirement.Len() == 1 {
				labels[key] = requirement.Values()[0]
			}
		}
	}
	for key, value := range claim.Labels {
		labels[key] = value
	}
	labels[corev1.LabelHostname] = name
	labels[awsv1.LabelInstanceTenancy] = "default"
	if tenancy := asked.Get(awsv1.LabelInstanceTenancy); tenancy.Operator() == corev1.NodeSelectorOpIn && tenancy.Len() == 1 {
		labels[awsv1.LabelInstanceTenancy] = tenancy.Values()[0]
	}
	labels[karpv1.NodeRegisteredLabelKey], labels[karpv1.NodeInitializedLabelKey] = "true", "true"
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec:       corev1.NodeSpec{ProviderID: "aws:///" + offering.Zone() + "/" + name, Taints: pool.Spec.Template.Spec.Taints},
		Status: corev1.NodeStatus{
			Capacity: instance.Capacity.DeepCopy(), Allocatable: instance.Allocatable().DeepCopy(),
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
}
