//! Renders the manual of a rule as HTML, from the Markdown that manuals use.

use super::markup::Markup;

/// Writes the manual without its first line, which is the summary on the page.
pub(super) fn manual(out: &mut Markup, markdown: &str) {
    let mut paragraph = String::new();
    let mut in_list = false;
    // Whether the open block of code is a diff; `None` outside of a block.
    let mut code: Option<bool> = None;
    for line in markdown.lines().skip(1) {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            flush(out, &mut paragraph, &mut in_list);
            code = match code {
                None => {
                    let is_diff = language.contains("diff");
                    out.raw(if is_diff { "<pre class=\"code diff\">" } else { "<pre class=\"code\">" });
                    Some(is_diff)
                }
                Some(_) => {
                    out.raw("</pre>");
                    None
                }
            };
        } else if let Some(is_diff) = code {
            code_line(out, line, is_diff);
        } else if let Some(heading) = line.strip_prefix("# ") {
            flush(out, &mut paragraph, &mut in_list);
            out.raw("<h4>").words(heading.trim()).raw("</h4>");
        } else if line.trim().is_empty() {
            flush(out, &mut paragraph, &mut in_list);
        } else {
            if let Some(item) = line.strip_prefix("- ") {
                let was = in_list;
                end_paragraph(out, &mut paragraph, in_list);
                if !was {
                    out.raw("<ul>");
                }
                in_list = true;
                paragraph.push_str(item.trim());
                continue;
            }
            if !paragraph.is_empty() {
                paragraph.push(' ');
            }
            paragraph.push_str(line.trim());
        }
    }
    flush(out, &mut paragraph, &mut in_list);
    if code.is_some() {
        out.raw("</pre>");
    }
}

fn flush(out: &mut Markup, paragraph: &mut String, in_list: &mut bool) {
    end_paragraph(out, paragraph, *in_list);
    if std::mem::take(in_list) {
        out.raw("</ul>");
    }
}

fn end_paragraph(out: &mut Markup, paragraph: &mut String, in_list: bool) {
    let text = std::mem::take(paragraph);
    if text.is_empty() {
        return;
    }
    out.raw(if in_list { "<li>" } else { "<p>" });
    linked(out, &text);
    out.raw(if in_list { "</li>" } else { "</p>" });
}

/// Writes text, with `<https://…>` as links.
fn linked(out: &mut Markup, text: &str) {
    let mut rest = text;
    while let Some((before, (url, after))) =
        rest.split_once("<https://").and_then(|(before, link)| Some((before, link.split_once('>')?)))
    {
        out.words(before)
            .raw("<a rel=\"noreferrer\" href=\"https://")
            .text(url)
            .raw("\">")
            .text(url)
            .raw("</a>");
        rest = after;
    }
    out.words(rest);
}

fn code_line(out: &mut Markup, line: &str, is_diff: bool) {
    let (sign, text) = match line.chars().next() {
        Some(sign @ ('-' | '+' | ' ')) if is_diff => (sign, &line[1..]),
        _ => (' ', line),
    };
    match sign {
        '-' => out.raw("<del class=\"l\" data-n=\"-\">").text(text).raw("\n</del>"),
        '+' => out.raw("<ins class=\"l\" data-n=\"+\">").text(text).raw("\n</ins>"),
        _ => out.raw("<span class=\"l\" data-n=\" \">").text(text).raw("\n</span>"),
    };
}

#[cfg(test)]
mod tests {
    use gpulint_rules::RULES;

    use super::manual;
    use crate::report::html::markup::Markup;

    #[test]
    fn markdown_becomes_html() {
        let mut out = Markup::default();
        let text = "Summary.\n\n# Why\nA `b`\nand c.\n\n- one\n  more\n- two\n\n```yaml,diff\n a: 1\n-b: 2\n+b: 3\n```\n# References\n- <https://example.com/a?b=1&c>\n";
        manual(&mut out, text);
        assert_eq!(
            out.as_str(),
            "<h4>Why</h4><p>A <code>b</code> and c.</p><ul><li>one more</li><li>two</li></ul><pre class=\"code diff\">\
             <span class=\"l\" data-n=\" \">a: 1\n</span><del class=\"l\" data-n=\"-\">b: 2\n</del>\
             <ins class=\"l\" data-n=\"+\">b: 3\n</ins></pre><h4>References</h4><ul><li>\
             <a rel=\"noreferrer\" href=\"https://example.com/a?b=1&amp;c\">example.com/a?b=1&amp;c</a></li></ul>"
        );
    }

    #[test]
    fn every_manual_has_balanced_tags() {
        for rule in RULES {
            let mut out = Markup::default();
            manual(&mut out, &rule.markdown());
            for tag in ["p", "ul", "li", "pre", "h4", "code", "a", "span", "del", "ins"] {
                let html = out.as_str();
                let open =
                    html.matches(&format!("<{tag}>")).count() + html.matches(&format!("<{tag} ")).count();
                assert_eq!(open, html.matches(&format!("</{tag}>")).count(), "{}: {tag}\n{html}", rule.id);
            }
        }
    }
}
