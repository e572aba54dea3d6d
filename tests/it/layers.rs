//! The layers of `src` and of `webhook/src`: a file imports only from its own layer and from those below it.

use gpulint_testing::Imports;

/// The modules of the command line, lowest layer first.
const COMMAND_LINE: &[&[&str]] = &[
    &["args", "error", "interrupt"],
    &["terminal", "output", "progress", "markdown"],
    &["files", "git"],
    &["crds", "config"],
    &["baseline", "allow_comment"],
    &["batch"],
    &["render"],
    &["judge", "checkout", "states"],
    &["report"],
    &["check", "commands", "lsp", "plan"],
];

/// The modules of the admission webhook, lowest layer first.
const WEBHOOK: &[&[&str]] = &[
    &["wire", "kinds", "logs", "limits", "warm"],
    &["cause", "metrics"],
    &["supervise", "tls", "exemption"],
    &["evaluation_cache", "manifests", "certificates"],
    &["cache", "registration"],
    &["confirm"],
    &["evaluate"],
    &["review"],
    &["mutate"],
    &["serve"],
    // Tests of what reviews cost.
    &["growth"],
];

#[test]
fn nothing_imports_from_a_layer_above_or_in_a_circle() {
    for (folder, layers) in [("src", COMMAND_LINE), ("webhook/src", WEBHOOK)] {
        let imports = Imports::of(folder);
        assert!(imports.count() > 30, "{folder}: {} modules were found", imports.count());
        let wrong = imports.contradictions(layers);
        assert!(wrong.is_empty(), "{folder}:\n{}", wrong.join("\n"));
        assert_eq!(imports.circles(), Vec::<Vec<String>>::new(), "{folder}");
    }
}
