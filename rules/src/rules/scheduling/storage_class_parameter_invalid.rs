//! A StorageClass has parameters with which its driver makes no volume.
//!
//! # Why
//! The API server accepts any parameter of a StorageClass. The drivers reject those they do not know,
//! numbers with a unit, `iops` together with `iopsPerGB`, and what their service rejects: `iops` below the
//! minimum of the type, `throughput` for another type than gp3, `io1` or `io2` without IOPS, or a
//! persistent file system of FSx for Lustre without `perUnitStorageThroughput`. The claims of the class
//! then stay Pending with an event that says why, and so do their pods. Parameters cannot be changed later.
//! The driver of S3 makes no volumes at all: it mounts buckets that exist.
//!
//! # Fix
//! Write the parameters that the driver knows: for EBS `iops` and `throughput` as plain numbers, for FSx
//! for Lustre the throughput in MB/s for each TiB. Delete the class and create it again.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: storage.k8s.io/v1
//!  kind: StorageClass
//!  metadata: {name: checkpoints}
//!  provisioner: ebs.csi.aws.com
//!  volumeBindingMode: WaitForFirstConsumer
//!  parameters:
//!    type: gp3
//! -  throughput: 500Mi # <-
//! +  throughput: "500"
//! ```
//!
//! # References
//! - <https://github.com/kubernetes-sigs/aws-ebs-csi-driver/blob/master/docs/parameters.md>
//! - <https://docs.aws.amazon.com/fsx/latest/APIReference/API_CreateFileSystemLustreConfiguration.html>

use crate::cluster::storage::{EBS_DRIVER, FSX_DRIVER, S3_DRIVER};
use crate::facts::text::is_digits;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "storage-class-parameter-invalid",
    kinds: &[Kind::STORAGE_CLASS],
    reads: &[Kind::PERSISTENT_VOLUME, Kind::PERSISTENT_VOLUME_CLAIM],
    docs: docs(include_str!("storage_class_parameter_invalid.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Scheduling)
};

/// Maximum number of claims that are compared.
const MAX_COMPARED: usize = 256;

/// Parameters of EBS in lower case: the driver does not tell cases apart. Source: aws-ebs-csi-driver `pkg/driver/controller.go`
/// (`CreateVolume`), read in November 2026; it takes each `tagSpecification_*` as well.
const OF_EBS: [&str; 19] = [
    "allowautoiopsincreaseonmodify",
    "blockattachuntilinitialized",
    "ext4encryptionsupport",
    "volumeinitializationrate",
    "fstype",
    "type",
    "iopspergb",
    "allowautoiopspergbincrease",
    "iops",
    "throughput",
    "encrypted",
    "kmskeyid",
    "blockexpress",
    "blocksize",
    "inodesize",
    "bytesperinode",
    "numberofinodes",
    "ext4bigalloc",
    "ext4clustersize",
];
const NUMBERS: [&str; 4] = ["iopspergb", "iops", "throughput", "volumeinitializationrate"];
const TYPES: [&str; 9] = ["gp3", "gp2", "io1", "io2", "st1", "sc1", "standard", "sbp1", "sbg1"];

/// Throughputs of file systems for each TiB, by deployment type, on SSD. Source: `PerUnitStorageThroughput` of the API of FSx.
const OF_LUSTRE: [(&str, [&str; 4]); 2] =
    [("PERSISTENT_1", ["50", "100", "200", "200"]), ("PERSISTENT_2", ["125", "250", "500", "1000"])];

fn check(class: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let parameters = class.get("parameters");
    if class.may_lack_fields() || parameters.has_unknown_key() {
        return None;
    }
    match class.get("provisioner").text()? {
        EBS_DRIVER => ebs(&parameters, ctx),
        FSX_DRIVER => lustre(&parameters, ctx),
        S3_DRIVER => s3(class, ctx),
        _ => None,
    }
}

/// The driver of S3 mounts buckets that exist, and makes none: `docs/CONFIGURATION.md` of mountpoint-s3-csi-driver ("static provisioning").
fn s3(class: &Object, ctx: &mut Context<'_>) -> Option<()> {
    // Volumes that are written by hand may name the class.
    let names_class = |volume: &Object| {
        let field = volume.path(&["spec", "storageClassName"]);
        field.text().is_none_or(|name| name == class.name()) || volume.may_lack_fields()
    };
    if ctx.cluster().of(Kind::PERSISTENT_VOLUME).any(names_class) {
        return None;
    }
    let claims = |claim: &&Object| {
        let spec = claim.get("spec");
        spec.get("storageClassName").text() == Some(class.name())
            && !spec.get("volumeName").is_set()
            && !spec.get("selector").is_set()
            && !claim.may_lack_fields()
            && ctx.pairs_with(claim)
    };
    let claim = ctx.cluster().of(Kind::PERSISTENT_VOLUME_CLAIM).take(MAX_COMPARED).find(claims)?;
    let message =
        format!("the driver of S3 makes no volumes: the claim `{}` stays Pending", claim.display_name());
    // Something outside the input may make the volumes.
    let is_known = ctx.cluster().is_complete_for(Kind::PERSISTENT_VOLUME);
    ctx.report(&class.get("provisioner"), message)
        .severity(if is_known { Severity::Warning } else { Severity::Info })
        .help("write a PersistentVolume with the bucket, and name it in the claim as `volumeName`")
        .related(claim, &claim.path(&["spec", "storageClassName"]), "the claim names this class");
    None
}

fn ebs(parameters: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let entries = parameters.entries();
    for (key, value) in &entries {
        let name = key.to_ascii_lowercase();
        // The sidecar that provisions volumes has parameters of its own.
        if key.starts_with("csi.storage.k8s.io/") || key.starts_with("tagSpecification") {
            continue;
        }
        if !OF_EBS.contains(&name.as_str()) {
            let message =
                format!("the driver of EBS rejects the parameter `{}`: it makes no volume", ellipsize(key));
            let help = match nearest(&name, OF_EBS) {
                Some(near) => format!("write `{near}`, or remove it"),
                None => "remove it: the driver knows `type`, `iops`, `throughput`, `encrypted`, `kmsKeyId`"
                    .to_owned(),
            };
            ctx.report(value, message).at_key().help(help);
        } else if NUMBERS.contains(&name.as_str())
            && let Some(text) = value.text().filter(|text| !is_digits(text))
        {
            let message =
                format!("the driver of EBS cannot read `{key}: {}`: it makes no volume", ellipsize(text));
            ctx.report(value, message)
                .help("write a plain number: IOPS have no unit, a throughput is in MiB/s");
        }
    }
    let find =
        |name: &str| entries.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value);
    // `CreateDisk` in `pkg/cloud/cloud.go` of the driver, 1.64.
    if let (Some(iops), Some(ratio)) = (find("iops"), find("iopsPerGB"))
        && [iops, ratio].iter().all(|node| node.text().is_some_and(is_above_zero))
    {
        let object = ctx.object();
        ctx.report(ratio, "the driver of EBS rejects `iopsPerGB` together with `iops`: it makes no volume")
            .at_key()
            .help("keep `iops` for a fixed number, or `iopsPerGB` for one that grows with the volume")
            .related(object, iops, "the fixed number");
        return None;
    }
    let kind = find("type")?;
    let text = kind.text()?;
    if !TYPES.contains(&text) {
        let finding = ctx.report(kind, format!("`{}` is not a type of EBS volumes", ellipsize(text)));
        finding.help("write gp3, io2 or another type");
        return None;
    }
    // EC2: "throughput is only valid for gp3".
    if let Some(throughput) =
        find("throughput").filter(|node| text != "gp3" && node.text().is_some_and(is_above_zero))
    {
        ctx.report(
            throughput,
            format!("only a volume of type gp3 has a throughput: EC2 makes no {text} volume with it"),
        )
        .at_key()
        .help("remove it, or write gp3");
        return None;
    }
    if find("iopsPerGB").is_some() {
        return None;
    }
    let least = match text {
        "gp3" => 3000,
        "io1" | "io2" => 100,
        _ => return None,
    };
    let Some(iops) = find("iops") else {
        if text != "gp3" {
            ctx.report(kind, format!("a volume of type {text} needs `iops` or `iopsPerGB`: EC2 makes none"))
                .help("add `iops`, or write gp3, which has 3000 of its own");
        }
        return None;
    };
    let may_rise = find("allowAutoIOPSPerGBIncrease").is_some_and(|value| value.text() != Some("false"));
    let number: i64 = iops.text()?.parse().ok().filter(|number| *number < least && !may_rise)?;
    let message = format!("a volume of type {text} has at least {least} IOPS: {number} are rejected");
    ctx.report(iops, message).help(format!("write {least} or more, or remove it"));
    None
}

fn is_above_zero(text: &str) -> bool {
    text.parse::<i64>().is_ok_and(|number| number > 0)
}

fn lustre(parameters: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    // Other modes make folders of a file system that exists, and Intelligent-Tiering has another throughput.
    if parameters.get("provisioningMode").is_set() || parameters.get("throughputCapacity").is_set() {
        return None;
    }
    let (kind, storage) = (parameters.get("deploymentType"), parameters.get("storageType"));
    let (name, values) = OF_LUSTRE.iter().find(|(name, _)| kind.text() == Some(name))?;
    if storage.is_set() && storage.text() != Some("SSD") {
        return None;
    }
    let throughput = parameters.get("perUnitStorageThroughput");
    let mut values = values.to_vec();
    values.dedup();
    let values = values.join(", ");
    let message = if throughput.is_absent() {
        format!("a {name} file system needs `perUnitStorageThroughput`: FSx makes none without it")
    } else {
        let text = throughput.text().filter(|text| !values.split(", ").any(|one| one == *text))?;
        format!("`{}` is not a throughput of a {name} file system", ellipsize(text))
    };
    ctx.report(&throughput, message).help(format!("write one of {values}, in MB/s for each TiB"));
    None
}
