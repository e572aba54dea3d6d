//! The names of the public images for EKS, and which of them a name or a pattern of an EC2NodeClass matches.
//!
//! Each publisher has a naming scheme: operating system, architecture, variant, Kubernetes version, build. Karpenter takes the
//! newest image that matches, and looks at its architecture alone. Schemes:
//! <https://docs.aws.amazon.com/eks/latest/userguide/eks-ami-versions-al2023.html>,
//! <https://docs.aws.amazon.com/eks/latest/userguide/eks-ami-versions-bottlerocket.html>,
//! <https://docs.aws.amazon.com/eks/latest/userguide/eks-ami-versions-windows.html>, <https://cloud-images.ubuntu.com/docs/aws/eks/>.

use crate::catalog::Accelerator;

/// The operating system of an image, by the `amiFamily` that boots it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum ImageFamily {
    Al2,
    Al2023,
    Bottlerocket,
    Windows2019,
    Windows2022,
    Windows2025,
    /// Canonical's images, for which Karpenter has no family.
    Ubuntu,
}

impl ImageFamily {
    /// Whether EKS has images of the family for a minor of Kubernetes: the last of AL2 are for 1.32, the first of Windows Server 2025 for
    /// 1.35.
    fn is_published_for(self, minor: u32) -> bool {
        match self {
            ImageFamily::Al2 => minor <= 32,
            ImageFamily::Windows2025 => minor >= 35,
            _ => true,
        }
    }

    /// The name of the family, as in `spec.amiFamily`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            ImageFamily::Al2 => "AL2",
            ImageFamily::Al2023 => "AL2023",
            ImageFamily::Bottlerocket => "Bottlerocket",
            ImageFamily::Windows2019 => "Windows2019",
            ImageFamily::Windows2022 => "Windows2022",
            ImageFamily::Windows2025 => "Windows2025",
            ImageFamily::Ubuntu => "Ubuntu",
        }
    }
}

/// The drivers that an image has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Variant {
    Standard,
    Nvidia,
    Neuron,
    /// AL2's image for accelerators has both.
    NvidiaAndNeuron,
}

/// The images of one line of a publisher, for one Kubernetes minor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Image {
    pub family: ImageFamily,
    /// `amd64` or `arm64`.
    pub arch: &'static str,
    pub variant: Variant,
    /// The minor of Kubernetes: 33 of 1.33.
    pub minor: u32,
}

impl Image {
    /// Whether the image has the driver of a device, or may get it from an operator, as Canonical's. Bottlerocket's standard
    /// image has that of Neuron, whose kernel module is part of it.
    pub(crate) fn has_driver(&self, device: &str) -> bool {
        match (Accelerator::of(device), self.variant) {
            _ if self.family == ImageFamily::Ubuntu => true,
            (Some(Accelerator::Nvidia), variant) => {
                matches!(variant, Variant::Nvidia | Variant::NvidiaAndNeuron)
            }
            (Some(Accelerator::Neuron), Variant::Neuron | Variant::NvidiaAndNeuron) => true,
            (Some(Accelerator::Neuron), variant) => {
                self.family == ImageFamily::Bottlerocket && variant == Variant::Standard
            }
            _ => true,
        }
    }
}

/// The minors of Kubernetes for which images are told apart: from the oldest that a supported Karpenter runs on.
const MINORS: std::ops::RangeInclusive<u32> = 28..=36;

/// A scheme: `VERSION` is the Kubernetes version, `#` a digit, `+` one or more digits, `%` a letter or a digit.
type Scheme = (&'static str, ImageFamily, &'static str, Variant);

const AMD64: &str = "amd64";
const ARM64: &str = "arm64";

const SCHEMES: [Scheme; 35] = {
    use ImageFamily::{Al2, Al2023, Bottlerocket, Ubuntu, Windows2019, Windows2022, Windows2025};
    use Variant::{Neuron, Nvidia, NvidiaAndNeuron, Standard};
    [
        ("amazon-eks-node-VERSION-v########", Al2, AMD64, Standard),
        ("amazon-eks-gpu-node-VERSION-v########", Al2, AMD64, NvidiaAndNeuron),
        ("amazon-eks-arm64-node-VERSION-v########", Al2, ARM64, Standard),
        ("amazon-eks-node-al2023-x86_64-standard-VERSION-v########", Al2023, AMD64, Standard),
        ("amazon-eks-node-al2023-arm64-standard-VERSION-v########", Al2023, ARM64, Standard),
        ("amazon-eks-node-al2023-x86_64-nvidia-VERSION-v########", Al2023, AMD64, Nvidia),
        ("amazon-eks-node-al2023-arm64-nvidia-VERSION-v########", Al2023, ARM64, Nvidia),
        // The first images for NVIDIA had the version of the driver in their names.
        ("amazon-eks-node-al2023-x86_64-nvidia-###-VERSION-v########", Al2023, AMD64, Nvidia),
        ("amazon-eks-node-al2023-arm64-nvidia-###-VERSION-v########", Al2023, ARM64, Nvidia),
        ("amazon-eks-node-al2023-x86_64-neuron-VERSION-v########", Al2023, AMD64, Neuron),
        ("bottlerocket-aws-k8s-VERSION-x86_64-v+.+.+-%%%%%%%%", Bottlerocket, AMD64, Standard),
        ("bottlerocket-aws-k8s-VERSION-aarch64-v+.+.+-%%%%%%%%", Bottlerocket, ARM64, Standard),
        ("bottlerocket-aws-k8s-VERSION-fips-x86_64-v+.+.+-%%%%%%%%", Bottlerocket, AMD64, Standard),
        ("bottlerocket-aws-k8s-VERSION-fips-aarch64-v+.+.+-%%%%%%%%", Bottlerocket, ARM64, Standard),
        ("bottlerocket-aws-k8s-VERSION-nvidia-x86_64-v+.+.+-%%%%%%%%", Bottlerocket, AMD64, Nvidia),
        ("bottlerocket-aws-k8s-VERSION-nvidia-aarch64-v+.+.+-%%%%%%%%", Bottlerocket, ARM64, Nvidia),
        ("bottlerocket-aws-k8s-VERSION-nvidia-fips-x86_64-v+.+.+-%%%%%%%%", Bottlerocket, AMD64, Nvidia),
        ("bottlerocket-aws-k8s-VERSION-nvidia-fips-aarch64-v+.+.+-%%%%%%%%", Bottlerocket, ARM64, Nvidia),
        ("Windows_Server-2019-English-Core-EKS_Optimized-VERSION-%%%%.%%.%%", Windows2019, AMD64, Standard),
        ("Windows_Server-2019-English-Full-EKS_Optimized-VERSION-%%%%.%%.%%", Windows2019, AMD64, Standard),
        ("Windows_Server-2022-English-Core-EKS_Optimized-VERSION-%%%%.%%.%%", Windows2022, AMD64, Standard),
        ("Windows_Server-2022-English-Full-EKS_Optimized-VERSION-%%%%.%%.%%", Windows2022, AMD64, Standard),
        ("Windows_Server-2025-English-Core-EKS_Optimized-VERSION-%%%%.%%.%%", Windows2025, AMD64, Standard),
        ("Windows_Server-2025-English-Full-EKS_Optimized-VERSION-%%%%.%%.%%", Windows2025, AMD64, Standard),
        (
            "ubuntu-eks/k8s_VERSION/images/hvm-ssd/ubuntu-focal-20.04-amd64-server-########",
            Ubuntu,
            AMD64,
            Standard,
        ),
        (
            "ubuntu-eks/k8s_VERSION/images/hvm-ssd/ubuntu-focal-20.04-arm64-server-########",
            Ubuntu,
            ARM64,
            Standard,
        ),
        (
            "ubuntu-eks/k8s_VERSION/images/hvm-ssd/ubuntu-jammy-22.04-amd64-server-########",
            Ubuntu,
            AMD64,
            Standard,
        ),
        (
            "ubuntu-eks/k8s_VERSION/images/hvm-ssd/ubuntu-jammy-22.04-arm64-server-########",
            Ubuntu,
            ARM64,
            Standard,
        ),
        (
            "ubuntu-eks/k8s_VERSION/images/hvm-ssd-gp3/ubuntu-noble-24.04-amd64-server-########",
            Ubuntu,
            AMD64,
            Standard,
        ),
        (
            "ubuntu-eks/k8s_VERSION/images/hvm-ssd-gp3/ubuntu-noble-24.04-arm64-server-########",
            Ubuntu,
            ARM64,
            Standard,
        ),
        (
            "ubuntu-eks-pro/k8s_VERSION/images/hvm-ssd/ubuntu-jammy-22.04-amd64-server-########",
            Ubuntu,
            AMD64,
            Standard,
        ),
        (
            "ubuntu-eks-pro/k8s_VERSION/images/hvm-ssd/ubuntu-jammy-22.04-arm64-server-########",
            Ubuntu,
            ARM64,
            Standard,
        ),
        (
            "ubuntu-eks-pro/k8s_VERSION/images/hvm-ssd-gp3/ubuntu-noble-24.04-amd64-server-########",
            Ubuntu,
            AMD64,
            Standard,
        ),
        (
            "ubuntu-eks-pro/k8s_VERSION/images/hvm-ssd-gp3/ubuntu-noble-24.04-arm64-server-########",
            Ubuntu,
            ARM64,
            Standard,
        ),
        (
            "ubuntu-minimal-eks/k8s_VERSION/images/hvm-ssd-gp3/ubuntu-noble-24.04-amd64-minimal-########",
            Ubuntu,
            AMD64,
            Standard,
        ),
    ]
};

/// The SSM parameters that name images for EKS, with the scheme as of names. AWS writes no other values.
const PARAMETERS: [Scheme; 9] = {
    use ImageFamily::{Al2, Al2023, Bottlerocket};
    use Variant::{Neuron, Nvidia, NvidiaAndNeuron, Standard};
    [
        ("/aws/service/eks/optimized-ami/VERSION/amazon-linux-2/", Al2, AMD64, Standard),
        ("/aws/service/eks/optimized-ami/VERSION/amazon-linux-2-gpu/", Al2, AMD64, NvidiaAndNeuron),
        ("/aws/service/eks/optimized-ami/VERSION/amazon-linux-2-arm64/", Al2, ARM64, Standard),
        (
            "/aws/service/eks/optimized-ami/VERSION/amazon-linux-2023/x86_64/standard/",
            Al2023,
            AMD64,
            Standard,
        ),
        ("/aws/service/eks/optimized-ami/VERSION/amazon-linux-2023/arm64/standard/", Al2023, ARM64, Standard),
        ("/aws/service/eks/optimized-ami/VERSION/amazon-linux-2023/x86_64/nvidia/", Al2023, AMD64, Nvidia),
        ("/aws/service/eks/optimized-ami/VERSION/amazon-linux-2023/x86_64/neuron/", Al2023, AMD64, Neuron),
        ("/aws/service/bottlerocket/aws-k8s-VERSION/x86_64/", Bottlerocket, AMD64, Standard),
        ("/aws/service/bottlerocket/aws-k8s-VERSION-nvidia/x86_64/", Bottlerocket, AMD64, Nvidia),
    ]
};

/// The public images for EKS that a name with the wildcards `*` and `?` matches, as filters of EC2 do. Empty for the names of other
/// images.
pub(crate) fn images_named(pattern: &str) -> Vec<Image> {
    let mut out = Vec::new();
    for (scheme, family, arch, variant) in SCHEMES {
        let matching = MINORS.filter(|minor| is_named(pattern, scheme, *minor));
        out.extend(matching.map(|minor| Image { family, arch, variant, minor }));
    }
    out.sort();
    out.dedup();
    out
}

/// The minors of the images of each scheme that a pattern matches, in the order of the schemes; empty lists are left out.
pub(crate) fn minors_named(pattern: &str) -> impl Iterator<Item = Vec<u32>> + '_ {
    let minors = move |scheme: &Scheme| -> Vec<u32> {
        let published = MINORS.filter(|minor| scheme.1.is_published_for(*minor));
        published.filter(|minor| is_named(pattern, scheme.0, *minor)).collect()
    };
    SCHEMES.iter().map(minors).filter(|minors| !minors.is_empty())
}

/// The image of a public SSM parameter of EKS or Bottlerocket.
pub(crate) fn image_of_parameter(name: &str) -> Option<Image> {
    let arm = name.replace("/arm64/", "/x86_64/");
    PARAMETERS.into_iter().find_map(|(scheme, family, arch, variant)| {
        let minor = MINORS.into_iter().find(|minor| {
            let start = with_version_text(scheme, *minor);
            name.starts_with(&start) || (arm != name && arm.starts_with(&start))
        })?;
        let is_arm = name.contains("/arm64/");
        Some(Image { family, arch: if is_arm { ARM64 } else { arch }, variant, minor })
    })
}

fn with_version_text(scheme: &str, minor: u32) -> String {
    scheme.replace("VERSION", &format!("1.{minor}"))
}

/// Whether a pattern matches some build of a scheme for a minor. In `*1.33*` the author means Kubernetes and not the build, so a
/// build is matched by wildcards alone unless the pattern has one.
fn is_named(pattern: &str, scheme: &str, minor: u32) -> bool {
    // Most patterns begin with the beginning of one publisher's names.
    let start =
        scheme.split(['#', '+', '%']).next().and_then(|start| start.split("VERSION").next()).unwrap_or("");
    let written = pattern.split(['*', '?']).next().unwrap_or_default();
    if !written.starts_with(start) && !start.starts_with(written) {
        return false;
    }
    let has_build = !pattern.contains('*') || pattern.contains("-v1.") || pattern.contains("-20");
    can_match(pattern, &with_version(scheme, minor, has_build))
}

/// A character of a scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Char(char),
    Digit,
    /// One or more digits.
    Digits,
    Alphanumeric,
    /// Matched by wildcards alone.
    Unwritten,
}

impl Part {
    fn takes(self, c: char) -> bool {
        match self {
            Part::Char(own) => own == c,
            Part::Digit | Part::Digits => c.is_ascii_digit(),
            Part::Alphanumeric => c.is_ascii_lowercase() || c.is_ascii_digit(),
            Part::Unwritten => false,
        }
    }
}

fn with_version(scheme: &str, minor: u32, has_build: bool) -> Vec<Part> {
    let (before, after) = scheme.split_once("VERSION").unwrap_or((scheme, ""));
    let part = |c: char| match c {
        '#' => Part::Digit,
        '+' | '%' if !has_build => Part::Unwritten,
        '+' => Part::Digits,
        '%' => Part::Alphanumeric,
        c => Part::Char(c),
    };
    let version = format!("1.{minor}");
    before.chars().map(part).chain(version.chars().map(Part::Char)).chain(after.chars().map(part)).collect()
}

/// Whether some text of a scheme matches a pattern.
fn can_match(pattern: &str, scheme: &[Part]) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    // The states in which the part of the scheme before a position may leave the pattern.
    let mut states = vec![false; pattern.len() + 1];
    states[0] = true;
    skip_stars(&pattern, &mut states);
    for part in scheme {
        let mut next = step(&pattern, &states, *part);
        if *part == Part::Digits {
            loop {
                let more = step(&pattern, &next, *part);
                let grown: Vec<bool> = next.iter().zip(&more).map(|(a, b)| *a || *b).collect();
                if grown == next {
                    break;
                }
                next = grown;
            }
        }
        states = next;
        if !states.contains(&true) {
            return false;
        }
    }
    states[pattern.len()]
}

/// The states after one more character of a part.
fn step(pattern: &[char], states: &[bool], part: Part) -> Vec<bool> {
    let mut next = vec![false; states.len()];
    for (at, wanted) in pattern.iter().enumerate().filter(|(at, _)| states[*at]) {
        match wanted {
            '*' => next[at] = true,
            '?' => next[at + 1] = true,
            c if part.takes(*c) => next[at + 1] = true,
            _ => {}
        }
    }
    skip_stars(pattern, &mut next);
    next
}

/// A star also matches nothing.
fn skip_stars(pattern: &[char], states: &mut [bool]) {
    for at in 0..pattern.len() {
        if states[at] && pattern[at] == '*' {
            states[at + 1] = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{image_of_parameter, images_named};

    /// Families, architectures, variants and minors of the images of a pattern, as `AL2023 amd64 Nvidia 1.33`; ranges for several.
    fn words(pattern: &str) -> String {
        let images = images_named(pattern);
        let list = |mut all: Vec<String>| {
            all.sort();
            all.dedup();
            all.join("+")
        };
        let minors: Vec<u32> = images.iter().map(|image| image.minor).collect();
        let Some((first, last)) = minors.iter().min().zip(minors.iter().max()) else {
            return "none".to_owned();
        };
        let minors = if first == last { format!("1.{first}") } else { "all".to_owned() };
        format!(
            "{} {} {} {minors}",
            list(images.iter().map(|image| image.family.name().to_owned()).collect()),
            list(images.iter().map(|image| image.arch.to_owned()).collect()),
            list(images.iter().map(|image| format!("{:?}", image.variant)).collect()),
        )
    }

    #[test]
    fn names_are_told_apart() {
        let table = include_str!("ami_name_cases.txt");
        let mut cases = 0;
        for line in table.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
            let (pattern, expected) = line.split_once('|').expect("a pattern, a bar, and what it matches");
            assert_eq!(words(pattern.trim()), expected.trim(), "{pattern}");
            cases += 1;
        }
        assert!(cases >= 60, "{cases} cases");
    }

    #[test]
    fn parameters_name_one_image() {
        for (name, expected) in [
            (
                "/aws/service/eks/optimized-ami/1.33/amazon-linux-2023/x86_64/nvidia/recommended/image_id",
                Some("AL2023 amd64 Nvidia 33"),
            ),
            (
                "/aws/service/eks/optimized-ami/1.33/amazon-linux-2023/arm64/nvidia/recommended/image_id",
                Some("AL2023 arm64 Nvidia 33"),
            ),
            (
                "/aws/service/eks/optimized-ami/1.33/amazon-linux-2023/arm64/standard/recommended/image_id",
                Some("AL2023 arm64 Standard 33"),
            ),
            (
                "/aws/service/eks/optimized-ami/1.30/amazon-linux-2-gpu/recommended/image_id",
                Some("AL2 amd64 NvidiaAndNeuron 30"),
            ),
            (
                "/aws/service/bottlerocket/aws-k8s-1.33-nvidia/arm64/latest/image_id",
                Some("Bottlerocket arm64 Nvidia 33"),
            ),
            (
                "/aws/service/bottlerocket/aws-k8s-1.33/x86_64/1.44.0/image_id",
                Some("Bottlerocket amd64 Standard 33"),
            ),
            ("/my-team/images/gpu", None),
        ] {
            let found = image_of_parameter(name).map(|image| {
                format!("{} {} {:?} {}", image.family.name(), image.arch, image.variant, image.minor)
            });
            assert_eq!(found.as_deref(), expected, "{name}");
        }
    }
}
