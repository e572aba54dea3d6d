//! Renders the manual pages of rules on a terminal: paragraphs are wrapped, code is indented.

use crate::terminal::RenderOptions;

const BOLD: &str = "\x1b[1m";
const PLAIN: &str = "\x1b[0m";
pub(crate) const CODE: &str = "  ";

/// Renders the Markdown that rules use: paragraphs, headings, lists, fenced code.
pub(crate) fn render(markdown: &str, look: RenderOptions) -> String {
    let width = look.width.min(80);
    let mut page = Page { out: String::new(), paragraph: String::new(), hang: 0, width };
    let mut code = false;
    for line in markdown.lines() {
        if line.trim_start().starts_with("```") {
            page.flush();
            code = !code;
        } else if code {
            page.line(CODE, line);
        } else if let Some(heading) = line.strip_prefix('#') {
            page.flush();
            let heading = heading.trim_start_matches('#').trim();
            if look.color {
                page.out.push_str(&format!("{BOLD}{heading}{PLAIN}\n"));
            } else {
                page.line("", heading);
            }
        } else if line.trim().is_empty() {
            page.flush();
            if !page.out.ends_with("\n\n") {
                page.out.push('\n');
            }
        } else {
            if line.starts_with("- ") || line.starts_with("* ") {
                page.flush();
                page.hang = 2;
            }
            page.add(line.trim());
        }
    }
    page.flush();
    page.out.truncate(page.out.trim_end().len());
    page.out.push('\n');
    page.out
}

struct Page {
    out: String,
    paragraph: String,
    /// Indentation of the lines after the first one of the paragraph.
    hang: usize,
    width: usize,
}

impl Page {
    fn add(&mut self, text: &str) {
        if !self.paragraph.is_empty() {
            self.paragraph.push(' ');
        }
        self.paragraph.push_str(text);
    }

    fn line(&mut self, indent: &str, text: &str) {
        if !text.is_empty() {
            self.out.push_str(indent);
            self.out.push_str(text);
        }
        self.out.push('\n');
    }

    fn flush(&mut self) {
        let text = std::mem::take(&mut self.paragraph);
        let hang = " ".repeat(std::mem::take(&mut self.hang));
        if text.is_empty() {
            return;
        }
        // A terminal recognizes a link only if it is on one line.
        if !hang.is_empty() && text.contains("https://") {
            self.line("", &text.replace("<https://", "https://").replace('>', ""));
            return;
        }
        for (at, line) in wrap(&text, self.width - hang.len()).iter().enumerate() {
            self.line(if at == 0 { "" } else { &hang }, line);
        }
    }
}

/// Breaks text at spaces into lines of at most `width` characters; longer words get their own line.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if used > 0 && used + 1 + length > width {
            lines.push(String::new());
            used = 0;
        }
        if let Some(line) = lines.last_mut() {
            if used > 0 {
                line.push(' ');
                used += 1;
            }
            line.push_str(word);
            used += length;
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::{render, wrap};
    use crate::terminal::RenderOptions;

    const LOOK: RenderOptions = RenderOptions { color: false, unicode: true, width: 80 };

    #[test]
    fn paragraphs_wrap_and_code_does_not() {
        let long = "word ".repeat(40);
        let page =
            render(&format!("Title.\n\n# Why\n{long}\n- a\n- b\n\n```yaml,bad\na:  1\n\nb: 2\n```\n"), LOOK);
        assert!(page.lines().all(|line| line.chars().count() <= 80));
        assert!(page.starts_with("Title.\n\nWhy\nword word"));
        assert!(page.ends_with("- a\n- b\n\n  a:  1\n\n  b: 2\n"), "{page}");
    }

    #[test]
    fn links_stay_on_one_line() {
        let url = format!("https://example.com/{}", "a".repeat(90));
        let page = render(&format!("# References\n- <{url}>\n- what it says: <{url}>\n"), LOOK);
        assert_eq!(page, format!("References\n- {url}\n- what it says: {url}\n"));
    }

    #[test]
    fn a_long_word_stands_alone() {
        assert_eq!(wrap("a bbbbbbbb c", 4), ["a", "bbbbbbbb", "c"]);
    }
}
