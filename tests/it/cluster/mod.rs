//! A real kube-apiserver, with the real CRDs and KEDA's own admission webhooks, verifies the findings of
//! gpulint that claim a rejection.
//!
//! `KUBEBUILDER_ASSETS=$(tests/cluster/build) cargo test --test it cluster::`; without the variable each test
//! prints that it was skipped, and passes.

mod cases;
mod certificates;
mod differences;
mod drift;
mod expressions;
mod judge;
mod keda;
mod mutants;
mod places;
mod process;
mod scalers;
pub(crate) mod server;
mod tally;
mod verdicts;

use std::path::Path;

use gpulint_rules::Platform;
use gpulint_rules::platform::{Product, Version};

/// The versions of the programs that judge, as their modules pin them.
fn platform() -> Platform {
    let mut platform = Platform::default();
    for (product, folder, module) in [
        (Product::Karpenter, "crds", "github.com/aws/karpenter-provider-aws"),
        (Product::Keda, "keda", "github.com/kedacore/keda/v2"),
        (Product::Kubernetes, "apiserver", "k8s.io/kubernetes"),
    ] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cluster").join(folder).join("go.mod");
        let text = std::fs::read_to_string(path).unwrap();
        let version = text.split_whitespace().skip_while(|word| *word != module).nth(1);
        platform.state(product, version.and_then(Version::parse).expect("the version of the judge"));
    }
    platform
}
