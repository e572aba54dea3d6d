//! A chart or kustomization could not be rendered.
//!
//! # Why
//! `gpulint check --render` runs `helm template` and `kustomize build`, because what is applied is
//! what they print. Where the program is missing or fails, nothing of that chart or kustomization
//! was checked as it is applied, and whoever applies it probably meets the same error. The message
//! has the program's own words. Nothing is downloaded: the dependencies of a chart must be in its
//! folder `charts`. Without `--render` a kustomization that lists a file which does not exist is a warning,
//! unless Git ignores the file or the repository has submodules.
//!
//! # Fix
//! Repair what the program names. Run `helm dependency build` for missing dependencies. For a chart
//! that needs values, and whose installation is not in the input, name them in `gpulint.yaml`:
//! `render: {helm: [{chart: charts/server, values: [values-prod.yaml]}]}`.
//!
//! # Example
//! ```yaml
//! apiVersion: v2
//! name: server # <- an error, if `charts/` does not hold the dependency below
//! version: 0.1.0
//! dependencies:
//!   - {name: common, version: 1.0.0, repository: "https://charts.example.com"}
//! ```
//!
//! # References
//! - <https://helm.sh/docs/helm/helm_template/>
//! - <https://kubectl.docs.kubernetes.io/references/kustomize/kustomization/>

use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "render-failed",
    docs: docs(include_str!("render_failed.rs")),
    ..Rule::error(Group::Manifest)
};
