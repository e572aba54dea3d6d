package main

import (
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// described is a row of gpulint's catalogue (rules/src/catalog/instances.csv) as EC2 describes the type. None where the row has a gap.
func described(row map[string]string) (ec2types.InstanceTypeInfo, bool) {
	for column, cell := range row {
		if cell == "?" && column != "network_mbps" && column != "pod_eni" {
			return ec2types.InstanceTypeInfo{}, false
		}
	}
	number := func(column string) int64 { n, _ := strconv.ParseInt(row[column], 10, 64); return n }
	short := func(column string) *int32 { return aws.Int32(int32(number(column))) }
	has := func(feature string) bool { return strings.Contains(row["features"], feature) }
	arch := ec2types.ArchitectureTypeX8664
	if row["arch"] == "arm64" {
		arch = ec2types.ArchitectureTypeArm64
	}
	info := ec2types.InstanceTypeInfo{
		InstanceType: ec2types.InstanceType(row["instance_type"]),
		VCpuInfo:     &ec2types.VCpuInfo{DefaultVCpus: short("vcpu")},
		MemoryInfo:   &ec2types.MemoryInfo{SizeInMiB: aws.Int64(number("memory_mib"))},
		ProcessorInfo: &ec2types.ProcessorInfo{
			SupportedArchitectures: []ec2types.ArchitectureType{arch}, Manufacturer: aws.String(row["cpu_manufacturer"]),
			SustainedClockSpeedInGhz: aws.Float64(float64(number("clock_mhz")) / 1000),
		},
		NetworkInfo: &ec2types.NetworkInfo{
			EncryptionInTransitSupported: aws.Bool(row["encryption"] == "true"), DefaultNetworkCardIndex: aws.Int32(0),
			Ipv4AddressesPerInterface: short("ipv4_per_eni"), EnaSupport: ec2types.EnaSupportUnsupported,
		},
		SupportedUsageClasses: []ec2types.UsageClassType{ec2types.UsageClassTypeOnDemand},
	}
	if row["hypervisor"] != "-" {
		info.Hypervisor = ec2types.InstanceTypeHypervisor(row["hypervisor"])
	}
	if row["spot"] == "1" {
		info.SupportedUsageClasses = append(info.SupportedUsageClasses, ec2types.UsageClassTypeSpot)
	}
	if has("n") {
		info.NetworkInfo.EnaSupport = ec2types.EnaSupportRequired
	}
	if has("e") {
		info.NitroEnclavesSupport = ec2types.NitroEnclavesSupportSupported
	}
	if has("v") {
		info.ProcessorInfo.SupportedFeatures = []ec2types.SupportedAdditionalProcessorFeature{ec2types.SupportedAdditionalProcessorFeatureNestedVirtualization}
	}
	if number("efa") > 0 {
		info.NetworkInfo.EfaInfo = &ec2types.EfaInfo{MaximumEfaInterfaces: short("efa")}
	}
	for _, run := range strings.Split(row["network_cards"], "+") {
		most, times, _ := strings.Cut(run, "*")
		interfaces, _ := strconv.Atoi(most)
		count := 1
		if times != "" {
			count, _ = strconv.Atoi(times)
		}
		for range count {
			index := int32(len(info.NetworkInfo.NetworkCards))
			info.NetworkInfo.NetworkCards = append(info.NetworkInfo.NetworkCards, ec2types.NetworkCardInfo{
				NetworkCardIndex: &index, MaximumNetworkInterfaces: aws.Int32(int32(interfaces)),
			})
			if int64(interfaces) == number("enis") && *info.NetworkInfo.NetworkCards[*info.NetworkInfo.DefaultNetworkCardIndex].MaximumNetworkInterfaces != int32(interfaces) {
				info.NetworkInfo.DefaultNetworkCardIndex = &index
			}
		}
	}
	if number("instance_store_gb") > 0 {
		info.InstanceStorageInfo = &ec2types.InstanceStorageInfo{TotalSizeInGB: aws.Int64(number("instance_store_gb")), NvmeSupport: ec2types.EphemeralNvmeSupportUnsupported}
		if number("local_nvme_gb") > 0 {
			info.InstanceStorageInfo.NvmeSupport = ec2types.EphemeralNvmeSupportRequired
		}
	}
	if number("ebs_mbps") > 0 {
		info.EbsInfo = &ec2types.EbsInfo{
			EbsOptimizedSupport: ec2types.EbsOptimizedSupportDefault, EbsOptimizedInfo: &ec2types.EbsOptimizedInfo{MaximumBandwidthInMbps: short("ebs_mbps")},
		}
	}
	if row["gpu_name"] != "" {
		maker := map[string]string{"nvidia": "NVIDIA", "amd": "AMD", "habana": "Habana"}[row["gpu_manufacturer"]]
		info.GpuInfo = &ec2types.GpuInfo{Gpus: []ec2types.GpuDeviceInfo{{
			Name: aws.String(row["gpu_name"]), Manufacturer: &maker, Count: short("gpu_count"), MemoryInfo: &ec2types.GpuDeviceMemoryInfo{SizeInMiB: short("gpu_memory_mib")},
		}}}
	}
	if devices := number("neuron"); devices > 0 {
		info.NeuronInfo = &ec2types.NeuronInfo{NeuronDevices: []ec2types.NeuronDeviceInfo{{
			Name: aws.String(row["accelerator_name"]), Count: short("neuron"), CoreInfo: &ec2types.NeuronDeviceCoreInfo{Count: aws.Int32(int32(number("neuroncore") / devices))},
		}}}
	} else if row["accelerator_name"] != "" {
		info.InferenceAcceleratorInfo = &ec2types.InferenceAcceleratorInfo{Accelerators: []ec2types.InferenceDeviceInfo{{
			Name: aws.String(row["accelerator_name"]), Manufacturer: aws.String(row["accelerator_manufacturer"]), Count: short("accelerator_count"),
		}}}
	}
	return info, true
}
