//! Suppressions in comments: `# gpulint: allow[rule-id] until=2027-01-31 reason`.

use gpulint_rules::tree::Span;
use gpulint_rules::{Group, RULES};

use super::item::{Item, ItemKind};
use crate::lsp::view::View;

const NAME: &str = "gpulint:";

/// The completions in the comment that begins at `start`.
pub(super) fn complete(text: &str, start: u32, offset: u32, view: Option<&View<'_>>) -> Vec<Item> {
    let Some(before) = text.get(start as usize..offset as usize) else {
        return Vec::new();
    };
    let body = before.trim_start_matches('#').trim_start();
    let Some(rest) = body.strip_prefix(NAME) else {
        // Complete only a comment that begins like a suppression. Other comments have other content.
        let is_begun = !body.is_empty() && NAME.starts_with(body);
        return if is_begun { vec![keyword(body, offset, "gpulint: allow[", SYNTAX)] } else { Vec::new() };
    };
    let rest = rest.trim_start();
    let Some((verb, list)) = rest.split_once('[') else {
        return if "allow".starts_with(rest) {
            vec![keyword(rest, offset, "allow[", SYNTAX)]
        } else {
            Vec::new()
        };
    };
    if verb.trim_end() != "allow" {
        return Vec::new();
    }
    match list.split_once(']') {
        None => rules(list, text, offset, view),
        Some((_, after)) => {
            let word = after.trim_start();
            let is_begun = after.starts_with(' ') && "until=".starts_with(word);
            if is_begun {
                vec![keyword(word, offset, "until=", "the last day that it counts, as `until=2027-01-31`")]
            } else {
                Vec::new()
            }
        }
    }
}

const SYNTAX: &str = "hides a rule on this line or the next: `allow[rule-id] reason`";

fn keyword(written: &str, offset: u32, text: &str, meaning: &str) -> Item {
    Item {
        span: before(written, offset),
        label: text.to_owned(),
        insert: text.to_owned(),
        kind: ItemKind::Keyword,
        detail: None,
        documentation: Some(meaning.to_owned()),
    }
}

/// The text that ends at the cursor.
fn before(written: &str, offset: u32) -> Span {
    let length = u32::try_from(written.len()).unwrap_or(0);
    Span::new(offset.saturating_sub(length), offset)
}

/// The rules that are not in the list yet; those with findings in the file first.
fn rules(list: &str, text: &str, offset: u32, view: Option<&View<'_>>) -> Vec<Item> {
    let word = list.rsplit(',').next().unwrap_or(list).trim_start();
    let behind = &text[offset as usize..];
    let id_end = behind.find(|c: char| !(c.is_ascii_alphanumeric() || c == '-')).unwrap_or(behind.len());
    let span = Span::new(before(word, offset).start, offset + u32::try_from(id_end).unwrap_or(0));
    let listed: Vec<&str> = list.split(',').map(str::trim).collect();
    let listed = &listed[..listed.len().saturating_sub(1)];
    let rest_of_list = behind.split(['\n', ']']).next().unwrap_or_default();
    let is_listed = |id: &str| {
        listed.contains(&id)
            || rest_of_list[id_end.min(rest_of_list.len())..].split(',').any(|other| other.trim() == id)
    };
    let count = |id: &str| {
        view.map_or(0, |view| view.report.findings.iter().filter(|finding| finding.rule.id == id).count())
    };
    let mut out: Vec<(usize, Item)> = Vec::new();
    for rule in RULES.iter().filter(|rule| rule.group != Group::Suppression && !is_listed(rule.id)) {
        let found = count(rule.id);
        let detail = match found {
            0 => rule.group.name().to_owned(),
            1 => "1 finding in this file".to_owned(),
            many => format!("{many} findings in this file"),
        };
        out.push((
            found,
            Item {
                span,
                label: rule.id.to_owned(),
                insert: rule.id.to_owned(),
                kind: ItemKind::Rule,
                detail: Some(detail),
                documentation: Some(rule.summary().to_owned()),
            },
        ));
    }
    out.sort_by_key(|(found, _)| *found == 0);
    out.into_iter().map(|(_, item)| item).collect()
}
