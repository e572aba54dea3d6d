package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	sdk "github.com/aws/karpenter-provider-aws/pkg/aws"
	"github.com/aws/karpenter-provider-aws/pkg/providers/amifamily"
	"github.com/aws/karpenter-provider-aws/pkg/providers/launchtemplate"
	"github.com/aws/karpenter-provider-aws/pkg/providers/placementgroup"
	"github.com/aws/karpenter-provider-aws/pkg/providers/ssm"
	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

const region = "us-east-1"

var zones = []string{"us-east-1a", "us-east-1b", "us-east-1c", "us-east-1d"}

// account is what Karpenter can ask AWS: every type in every zone, on demand and as Spot, at its list price.
type account struct {
	sdk.EC2API
	types  []ec2types.InstanceTypeInfo
	prices map[ec2types.InstanceType]float64
	// Free instances by reservation.
	free map[string]int
}

func (a *account) DescribeInstanceTypes(context.Context, *ec2.DescribeInstanceTypesInput, ...func(*ec2.Options)) (*ec2.DescribeInstanceTypesOutput, error) {
	return &ec2.DescribeInstanceTypesOutput{InstanceTypes: a.types}, nil
}

func (a *account) DescribeInstanceTypeOfferings(context.Context, *ec2.DescribeInstanceTypeOfferingsInput, ...func(*ec2.Options)) (*ec2.DescribeInstanceTypeOfferingsOutput, error) {
	out := &ec2.DescribeInstanceTypeOfferingsOutput{}
	for _, info := range a.types {
		for i := range zones {
			out.InstanceTypeOfferings = append(out.InstanceTypeOfferings, ec2types.InstanceTypeOffering{InstanceType: info.InstanceType, Location: &zones[i]})
		}
	}
	return out, nil
}

func (a *account) LivenessProbe(*http.Request) error                     { return nil }
func (a *account) InstanceTypes() []ec2types.InstanceType                { return nil }
func (a *account) UpdateOnDemandPricing(context.Context) error           { return nil }
func (a *account) UpdateSpotPricing(context.Context) error               { return nil }
func (a *account) OnDemandPrice(t ec2types.InstanceType) (float64, bool) { return a.prices[t], true }
func (a *account) SpotPrice(t ec2types.InstanceType, _ string) (float64, bool) {
	return a.prices[t] * 0.3, true
}

func (a *account) List(context.Context, ...awsv1.CapacityReservationSelectorTerm) ([]*ec2types.CapacityReservation, error) {
	return nil, nil
}
func (a *account) GetAvailableInstanceCount(id string) int        { return a.free[id] }
func (a *account) SetAvailableInstanceCount(id string, count int) { a.free[id] = count }
func (a *account) MarkLaunched(id string)                         { a.free[id]-- }
func (a *account) MarkTerminated(string, string)                  {}

// No placement group is ever found.
type placementGroups struct{}

func (placementGroups) Get(context.Context, placementgroup.NodeClass) (*placementgroup.PlacementGroup, error) {
	return nil, nil
}

// parameters has an image for every name.
type parameters struct{}

func (parameters) Get(_ context.Context, parameter ssm.Parameter) (string, error) {
	return parameter.Name, nil
}

// images are those that an alias stands for; of images that are named in another way it is not known what they are for.
func images(class *awsv1.EC2NodeClass) []awsv1.AMI {
	if class.Alias() == nil {
		return []awsv1.AMI{{ID: "ami-of-any-architecture"}}
	}
	query, err := amifamily.GetAMIFamily(class.AMIFamily(), &amifamily.Options{}).DescribeImageQuery(
		context.Background(), parameters{}, "1.34", class.Alias().Version)
	must(err)
	found := []awsv1.AMI{}
	for id := range query.KnownRequirements {
		arch := karpv1.ArchitectureAmd64
		if strings.Contains(id, "arm64") {
			arch = karpv1.ArchitectureArm64
		}
		for i, requirements := range query.RequirementsForImageWithArchitecture(id, arch) {
			ami := awsv1.AMI{ID: fmt.Sprint(id, i)}
			for _, requirement := range requirements.NodeSelectorRequirements() {
				ami.Requirements = append(ami.Requirements, corev1.NodeSelectorRequirement{
					Key: requirement.Key, Operator: requirement.Operator, Values: requirement.Values,
				})
			}
			found = append(found, ami)
		}
	}
	return found
}

type launchTemplates struct{ launchtemplate.Provider }

func (launchTemplates) ResolveClusterCIDR(context.Context) error { return nil }

// found fills in what Karpenter's controllers find of a class in its account, and what its status does not say.
func found(class *awsv1.EC2NodeClass) {
	if len(class.Status.Subnets) == 0 {
		for i, zone := range zones {
			id := "use1-az" + string(rune('1'+i))
			class.Status.Subnets = append(class.Status.Subnets, awsv1.Subnet{ID: "subnet-" + id, Zone: zone, ZoneID: id})
		}
	}
	class.Status.AMIs = images(class)
	class.Status.InstanceProfile = "nodes"
	for _, condition := range []string{
		awsv1.ConditionTypeAMIsReady, awsv1.ConditionTypeSubnetsReady, awsv1.ConditionTypeSecurityGroupsReady,
		awsv1.ConditionTypeInstanceProfileReady, awsv1.ConditionTypePlacementGroupReady, awsv1.ConditionTypeCapacityReservationsReady,
	} {
		class.StatusConditions().SetTrue(condition)
	}
}
