//! Settings of Karpenter that decide where pods go.

use gpulint_rules::facts::suggest;
use gpulint_rules::karpenter::feature_gate_names;
use gpulint_rules::platform::MinValuesPolicy;

/// Settings of Karpenter that decide where pods go.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct KarpenterArgs {
    /// Karpenter's feature gates, such as NodeOverlay=true, instead of `platform.featureGates`
    #[arg(long, value_name = "GATE=BOOL", value_delimiter = ',', value_parser = feature_gate)]
    pub(crate) feature_gates: Vec<(String, bool)>,

    /// Karpenter's policy for `minValues`, instead of `platform.minValuesPolicy`
    #[arg(long, value_name = "POLICY", value_parser = min_values_policy)]
    pub(crate) min_values_policy: Option<MinValuesPolicy>,
}

/// A feature gate of Karpenter and its state, as in `FEATURE_GATES`.
fn feature_gate(text: &str) -> Result<(String, bool), String> {
    let (name, state) =
        text.split_once('=').ok_or_else(|| "a feature gate looks like NodeOverlay=true".to_owned())?;
    let known: Vec<&str> = feature_gate_names().collect();
    if !known.contains(&name) {
        let near = suggest::nearest(name, known);
        let hint = near.map_or_else(String::new, |meant| format!("; did you mean `{meant}`?"));
        return Err(format!("Karpenter has no feature gate `{name}`{hint}"));
    }
    let on = state.parse().map_err(|_| format!("`{state}` is neither true nor false"))?;
    Ok((name.to_owned(), on))
}

fn min_values_policy(text: &str) -> Result<MinValuesPolicy, String> {
    MinValuesPolicy::parse(text).ok_or_else(|| {
        let names = MinValuesPolicy::ALL.map(MinValuesPolicy::name);
        format!("the policies are {}", names.join(" and "))
    })
}
