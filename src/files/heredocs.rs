//! Manifests in heredocs of Terraform, as `yaml_body` of a `kubectl_manifest` has them.

use std::path::Path;

/// The text of a file of Terraform in which nothing but such manifests is left, each at its place. All else is blank, and an expression
/// is one word, as a placeholder has it. `None` if there is no manifest.
///
/// Every byte of a manifest keeps its place, so that lines and columns are those of the file.
pub(super) fn manifests_in(text: &str) -> Option<String> {
    memchr::memmem::find(text.as_bytes(), b"apiVersion:")?;
    let mut out = String::with_capacity(text.len());
    let mut lines = text.split_inclusive('\n');
    let mut has_manifest = false;
    let mut is_in_locals = false;
    while let Some(line) = lines.next() {
        let opening = out.len();
        blank(line, &mut out);
        is_in_locals = line.starts_with("locals") || is_in_locals && !line.starts_with('}');
        let Some((marker, is_indented)) = marker_of(line) else { continue };
        let body: Vec<&str> = lines.by_ref().take_while(|line| line.trim() != marker).collect();
        let content = out.len();
        let is_unused =
            is_in_locals && line.split_once('=').is_some_and(|(name, _)| is_unused(name.trim(), text));
        if is_manifest(&body) && !is_unused {
            if has_manifest {
                separate(&mut out, opening);
            }
            has_manifest = true;
            for line in &body {
                match is_indented && line.trim() == "---" {
                    true => {
                        let start = out.len();
                        blank(line, &mut out);
                        separate(&mut out, start);
                    }
                    false => with_words(line, &mut out),
                }
            }
        } else {
            body.iter().for_each(|line| blank(line, &mut out));
        }
        // The line of the marker, which `take_while` has dropped.
        let end = content + body.iter().map(|line| line.len()).sum::<usize>();
        let rest = text.get(end..).unwrap_or_default();
        blank(rest.split_inclusive('\n').next().unwrap_or_default(), &mut out);
    }
    has_manifest.then_some(out)
}

/// Whether a file is one of Terraform's language.
pub(super) fn is_terraform(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "tf" || end == "tofu")
}

/// The word that ends a heredoc which a line opens, and whether its lines may be indented (`<<-`).
fn marker_of(line: &str) -> Option<(&str, bool)> {
    let line = line.trim_end();
    let before = line.split('#').next().unwrap_or_default();
    let (start, after) = line.rsplit_once("<<").filter(|(start, _)| start.len() < before.len())?;
    let is_indented = after.starts_with('-');
    let marker = after.trim_start_matches('-');
    let is_word = !marker.is_empty() && marker.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let is_value = start.trim_end().ends_with(['=', '(', '[', ',', ':']) || start.trim().is_empty();
    (is_word && is_value).then_some((marker, is_indented))
}

/// Whether all that uses a local value is commented out, so that nothing applies it. Other files of the module may use one that
/// its own file does not mention.
fn is_unused(local: &str, text: &str) -> bool {
    let reference = format!("local.{local}");
    let is_end =
        |rest: &str| !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    let names_it =
        |line: &&str| line.match_indices(&reference).any(|(at, found)| is_end(&line[at + found.len()..]));
    let is_comment = |line: &str| line.trim_start().starts_with(['#', '/']);
    let mut users = text.lines().filter(names_it).peekable();
    users.peek().is_some() && users.all(is_comment)
}

/// Whether the lines of a heredoc are a manifest without directives of Terraform.
fn is_manifest(body: &[&str]) -> bool {
    let begins = |key: &str| body.iter().any(|line| line.trim_start().starts_with(key));
    begins("apiVersion:") && begins("kind:") && !body.iter().any(|line| line.contains("%{"))
}

/// Adds blanks in the place of a line.
fn blank(line: &str, out: &mut String) {
    out.extend(line.bytes().map(|byte| if matches!(byte, b'\n' | b'\r') { char::from(byte) } else { ' ' }));
}

/// Writes the separator of documents at a place where there are blanks. A line that is too short has none, and needs none.
fn separate(out: &mut String, at: usize) {
    const SEPARATOR: &str = "---";
    let end = at + SEPARATOR.len();
    if out.get(at..end).is_some_and(|blanks| blanks.trim_matches(' ').is_empty()) {
        out.replace_range(at..end, SEPARATOR);
    }
}

/// Adds a line, with a word in the place of each expression `${…}`, whose quotes and braces mean nothing to YAML.
fn with_words(line: &str, out: &mut String) {
    let mut rest = line;
    while let Some(start) = rest.find("${") {
        let mut depth = 0usize;
        let end = rest[start..].char_indices().find_map(|(at, c)| {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => return None,
            }
            (depth == 0).then_some(start + at)
        });
        let Some(end) = end else { break };
        let (before, after) = (&rest[..start], &rest[end + 1..]);
        let inner: String = rest[start + 2..end].bytes().map(word_char).collect();
        out.push_str(before);
        // In `{…}` and `[…]` the braces would end the value: it is quoted, and two characters shorter.
        let is_in_flow =
            before.trim_end().ends_with([':', ',', '[']) && after.trim_start().starts_with([',', ']', '}']);
        match inner.get(2..).filter(|_| is_in_flow) {
            Some(inner) => out.push_str(&format!("\"${{{inner}}}\"")),
            None => out.push_str(&format!("${{{inner}}}")),
        }
        rest = &rest[end + 1..];
    }
    out.push_str(rest);
}

/// A character that means nothing to YAML in the place of a byte of an expression.
fn word_char(byte: u8) -> char {
    if byte.is_ascii_alphanumeric() || byte == b'.' { char::from(byte) } else { '_' }
}

#[cfg(test)]
mod tests {
    use super::{is_terraform, manifests_in};
    use std::path::Path;

    const FILE: &str = r#"resource "helm_release" "keda" {
  values = [<<-EOT
    replicas: 2
  EOT
  ]
}

resource "kubectl_manifest" "pool" {
  yaml_body = <<-YAML
    apiVersion: karpenter.sh/v1
    kind: NodePool
    metadata:
      name: ${lookup(var.names, "pool")}
    ---
    apiVersion: v1
    kind: Namespace
  YAML
}

resource "kubectl_manifest" "class" {
  yaml_body = <<YAML
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
YAML
}
"#;

    #[test]
    fn manifests_keep_their_places() {
        let found = manifests_in(FILE).unwrap();
        assert_eq!(found.len(), FILE.len());
        assert_eq!(found.find("kind: NodePool"), FILE.find("kind: NodePool"));
        assert_eq!(found.find("EC2NodeClass"), FILE.find("EC2NodeClass"));
        assert!(found.contains("name: ${lookup_var.names___pool__}\n"));
        assert!(!found.contains("replicas") && !found.contains("resource") && !found.contains("YAML"));
        assert_eq!(found.matches("\n---").count(), 2);
    }

    #[test]
    fn expressions_in_flow_are_quoted() {
        let text =
            "x = <<EOT\napiVersion: v1\nkind: Pod\na: {b: ${jsonencode(c)}, d: [${e.f}, g-${h}]}\nEOT\n";
        let found = manifests_in(text).unwrap();
        assert_eq!(found.len(), text.len());
        assert!(found.contains("a: {b: \"${onencode_c_}\", d: [\"${f}\", g-${h}]}"), "{found}");
    }

    #[test]
    fn locals_whose_users_are_commented_out_are_not_applied() {
        let locals = "locals {\n  pool = <<-EOT\n    apiVersion: v1\n    kind: Pod\n  EOT\n}\n";
        for (user, is_applied) in [
            ("", true),
            ("# yaml_body = local.pool\n", false),
            ("# yaml_body = local.pool_2\n", true),
            ("# yaml_body = local.pool\nyaml_body = local.pool\n", true),
        ] {
            assert_eq!(manifests_in(&format!("{locals}{user}")).is_some(), is_applied, "{user}");
        }
    }

    #[test]
    fn other_texts_have_none() {
        for text in [
            "resource \"x\" \"y\" {}\n",
            "# apiVersion: v1\nx = <<EOT\nkind: Pod\nEOT\n",
            "x = <<EOT\n%{ for a in b }\napiVersion: v1\nkind: Pod\n%{ endfor }\nEOT\n",
        ] {
            assert_eq!(manifests_in(text), None, "{text}");
        }
        assert!(is_terraform(Path::new("a/b.tf")) && !is_terraform(Path::new("a/b.tfvars")));
    }
}
