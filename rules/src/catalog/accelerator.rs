//! The kinds of accelerators that EC2 offers.

use std::sync::LazyLock;

use super::TypeSet;

/// A kind of accelerator, by the device plugin that registers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Accelerator {
    Nvidia,
    Neuron,
    Amd,
    Gaudi,
}

impl Accelerator {
    /// All kinds, from the one that is used most.
    pub(crate) const ALL: [Accelerator; 4] =
        [Accelerator::Nvidia, Accelerator::Neuron, Accelerator::Amd, Accelerator::Gaudi];

    /// The resources of all kinds.
    pub(crate) const RESOURCES: [&'static str; 4] = [
        Accelerator::Nvidia.resource(),
        Accelerator::Neuron.resource(),
        Accelerator::Amd.resource(),
        Accelerator::Gaudi.resource(),
    ];

    /// The resource of whole devices, which is also the key of the usual taint of their nodes.
    pub(crate) const fn resource(self) -> &'static str {
        match self {
            Accelerator::Nvidia => "nvidia.com/gpu",
            Accelerator::Neuron => "aws.amazon.com/neuron",
            Accelerator::Amd => "amd.com/gpu",
            Accelerator::Gaudi => "habana.ai/gaudi",
        }
    }

    /// The types with such devices.
    pub(crate) fn types(self) -> &'static TypeSet {
        static SETS: LazyLock<[TypeSet; 4]> = LazyLock::new(|| {
            Accelerator::ALL.map(|kind| TypeSet::matching(|t| t.devices(kind.resource()) > 0))
        });
        &SETS[self as usize]
    }

    /// The kind of a resource of whole devices.
    pub(crate) fn of(resource: &str) -> Option<Accelerator> {
        Accelerator::ALL.into_iter().find(|kind| kind.resource() == resource)
    }

    /// The kind of a resource of whole devices or of parts of them, such as `nvidia.com/mig-1g.10gb`: both have the domain of the
    /// vendor.
    pub(crate) fn of_part(resource: &str) -> Option<Accelerator> {
        let (domain, _) = resource.split_once('/')?;
        let is_of =
            |kind: &Accelerator| kind.resource().split_once('/').is_some_and(|(own, _)| own == domain);
        Accelerator::ALL.into_iter().find(is_of)
    }

    pub(crate) fn is_gpu(self) -> bool {
        matches!(self, Accelerator::Nvidia | Accelerator::Amd)
    }

    /// The name of such devices in messages, before a noun and as one.
    pub(crate) fn names(self) -> (&'static str, &'static str) {
        match self {
            Accelerator::Nvidia | Accelerator::Amd => ("GPU", "GPUs"),
            Accelerator::Neuron => ("Neuron", "Neuron devices"),
            Accelerator::Gaudi => ("Gaudi", "Gaudi devices"),
        }
    }

    /// What a NodePool with such devices is called in messages.
    pub(crate) fn pool_noun(self) -> &'static str {
        match self {
            Accelerator::Nvidia | Accelerator::Amd => "GPU pool",
            Accelerator::Neuron => "Neuron pool",
            Accelerator::Gaudi => "Gaudi pool",
        }
    }
}
