//! Findings that do not hold for all supported versions of a product.
//!
//! A rule checks for one version of each product: the stated one, or the newest that gpulint knows. While
//! the version is not stated, what a rule with `depends_on` finds is compared with what it finds under every
//! other supported version. A finding that one of them does not share is at most a warning, and its help names the setting;
//! what all of them share stays as it is. A fix that one of them does not share is not safe.

use std::borrow::Cow;
use std::sync::{Arc, PoisonError, RwLock};

use crate::cluster::Cluster;
use crate::cluster::versions::ShownVersions;
use crate::karpenter::minors::assume_karpenter;
use crate::lint::finding::{Finding, Severity};
use crate::lint::fix::{Fix, Safety};
use crate::lint::message::{MAX_MESSAGE_CHARS, has_whole_quotes, truncate};
use crate::object::Object;
use crate::platform::{Platform, Product, Version};
use crate::steps;

/// Number of steps for comparing the places of two findings.
const STEPS_PER_COMPARISON: usize = 8;

/// A platform, and the same with each other supported version, for products whose version is not stated.
#[derive(Debug)]
pub(crate) struct KnownPlatform {
    pub(crate) platform: Platform,
    pub(crate) alternatives: Vec<(Product, Platform)>,
}

impl KnownPlatform {
    fn new(mut platform: Platform) -> Arc<KnownPlatform> {
        assume_karpenter(&mut platform);
        let alternatives = alternatives(&platform);
        Arc::new(KnownPlatform { platform, alternatives })
    }
}

/// The versions that a set shows.
type Shown = Vec<(Product, Version)>;

/// The platforms of a configuration: its own, and that of each set which shows versions.
#[derive(Debug)]
pub(crate) struct Platforms {
    configured: Arc<KnownPlatform>,
    of_sets: RwLock<Vec<(Shown, Arc<KnownPlatform>)>>,
}

impl Platforms {
    pub(crate) fn new(configured: &Platform) -> Platforms {
        Platforms { configured: KnownPlatform::new(configured.clone()), of_sets: RwLock::default() }
    }

    /// The platform for the objects of a set.
    pub(crate) fn of(&self, cluster: &Cluster) -> Cow<'_, Arc<KnownPlatform>> {
        let shown = cluster.shown().map_or(&[][..], ShownVersions::all);
        // This is asked for each rule and object, and most sets show no version.
        if shown.is_empty() {
            return Cow::Borrowed(&self.configured);
        }
        let is_open = |product: Product| !self.configured.platform.is_stated(product);
        let open =
            || shown.iter().map(|one| (one.product, one.version)).filter(|(product, _)| is_open(*product));
        if open().next().is_none() {
            return Cow::Borrowed(&self.configured);
        }
        let find = |known: &[(Shown, Arc<KnownPlatform>)]| {
            known
                .iter()
                .find(|(shown, _)| shown.iter().copied().eq(open()))
                .map(|(_, platform)| Arc::clone(platform))
        };
        let found = find(&self.of_sets.read().unwrap_or_else(PoisonError::into_inner));
        Cow::Owned(found.unwrap_or_else(|| {
            let mut platform = self.configured.platform.clone();
            open().for_each(|(product, version)| platform.state(product, version));
            let platform = KnownPlatform::new(platform);
            let mut of_sets = self.of_sets.write().unwrap_or_else(PoisonError::into_inner);
            of_sets.push((open().collect(), Arc::clone(&platform)));
            platform
        }))
    }
}

/// The platform with each other supported version of each product whose version is not stated.
fn alternatives(platform: &Platform) -> Vec<(Product, Platform)> {
    let mut out = Vec::new();
    for product in Product::ALL.into_iter().filter(|product| !platform.is_stated(*product)) {
        for version in product.supported().filter(|version| *version != platform.version(product)) {
            let mut other = platform.clone();
            *other.version_mut(product) = version;
            out.push((product, other));
        }
    }
    out
}

/// A finding, with the first product whose other versions do not share it, and whether they share its fix.
struct Compared {
    finding: Finding,
    differs: Option<Product>,
    shares_fix: bool,
}

impl Compared {
    fn new(finding: Finding) -> Compared {
        Compared { finding, differs: None, shares_fix: true }
    }

    /// Whether a comparison with one more version can change the finding.
    fn is_open(&self) -> bool {
        let is_safe = || self.finding.fix.as_ref().is_some_and(|fix| fix.safety == Safety::Safe);
        self.differs.is_none() && (self.finding.severity > Severity::Info || self.shares_fix && is_safe())
    }

    /// The finding for a version that is assumed.
    fn lowered(self) -> Finding {
        let Compared { mut finding, differs, shares_fix } = self;
        if let Some(fix) = finding.fix.as_mut().filter(|_| differs.is_some() || !shares_fix) {
            Arc::make_mut(fix).safety = Safety::Unsafe;
        }
        if let Some(product) = differs.filter(|_| finding.severity > Severity::Info) {
            finding.severity = finding.severity.min(Severity::Warning);
            let object = finding.location.object();
            let is_old = object.is_some_and(|object| is_before_oldest(object, product));
            finding.help = Some(help(finding.help.take(), product, is_old));
        }
        finding
    }
}

/// Whether two fixes do the same.
fn are_equal(one: Option<&Fix>, other: Option<&Fix>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => one.operations == other.operations && one.creates == other.creates,
        (one, other) => one.is_none() && other.is_none(),
    }
}

/// Lowers the severity of a rule's findings, from index `from`, that do not hold for another supported version, or are not
/// known to within the allowance for all comparisons, and the safety of their fixes. `run` appends the findings of the rule on
/// another platform. Returns the number of steps, which do not count for the rule: what it finds stands, however many versions
/// there are.
pub(crate) fn lower_where_versions_differ<'a>(
    findings: &mut Vec<Finding>,
    from: usize,
    alternatives: impl Iterator<Item = &'a (Product, Platform)>,
    allowance: u64,
    mut run: impl FnMut(&Platform, &mut Vec<Finding>),
) -> u64 {
    let mut own: Vec<Compared> = findings.split_off(from).into_iter().map(Compared::new).collect();
    let mut left = allowance;
    for (product, platform) in alternatives {
        let mut open: Vec<&mut Compared> = own.iter_mut().filter(|one| one.is_open()).collect();
        if open.is_empty() {
            break;
        }
        let (finished, taken) = steps::limited(left, || run(platform, findings));
        left -= taken;
        if finished.is_none() {
            open.into_iter().for_each(|one| one.differs = Some(*product));
            findings.truncate(from);
            break;
        }
        let others = &findings[from..];
        // Both are in the same order: the search continues after the last match.
        let mut next = 0;
        for Compared { finding, differs, shares_fix } in &mut open {
            // The message may name the version.
            let shared = |other: &Finding| {
                steps::take(STEPS_PER_COMPARISON);
                other.severity >= finding.severity && other.location.ptr_eq(&finding.location)
            };
            let (before, behind) = others.split_at(next);
            match behind.iter().chain(before).position(shared) {
                Some(at) => {
                    let at = (next + at) % others.len();
                    *shares_fix &= are_equal(finding.fix.as_deref(), others[at].fix.as_deref());
                    next = at + 1;
                }
                None => *differs = Some(*product),
            }
        }
        findings.truncate(from);
    }
    findings.extend(own.into_iter().map(Compared::lowered));
    allowance - left
}

/// Whether an object is written for versions of a product before those that the setting takes: Karpenter serves `v1alpha5` up to
/// 0.32, and `v1beta1` from there up to 1.0.
fn is_before_oldest(object: &Object, product: Product) -> bool {
    product == Product::Karpenter
        && object.version() != "v1"
        && Product::of_group(object.group()) == Some(Product::Karpenter)
}

/// A help that names the setting for the version.
fn help(help: Option<String>, product: Product, is_old: bool) -> String {
    let which = if is_old { format!("(from {})", product.oldest()) } else { "to be sure".to_owned() };
    let setting = format!("set `{}` {which}", product.setting());
    match help {
        None => setting,
        Some(help) if help.contains("`platform") => help,
        Some(help) => {
            let room = MAX_MESSAGE_CHARS - setting.chars().count() - 2;
            if help.chars().count() <= room {
                return format!("{help}; {setting}");
            }
            // A complete clause is better than a truncated sentence.
            let head: String = help.chars().take(room).collect();
            let clause = head.rfind([';', ':', ',']).map(|end| &head[..end]);
            match clause.filter(|clause| clause.len() >= room / 2 && has_whole_quotes(clause)) {
                Some(clause) => format!("{clause}; {setting}"),
                None => {
                    // Half a word tells less than none.
                    let words = head.rsplit_once(' ').map_or(head.as_str(), |(words, _)| words);
                    format!("{}; {setting}", truncate(&format!("{words} …"), room))
                }
            }
        }
    }
}
