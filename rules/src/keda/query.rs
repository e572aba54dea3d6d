//! The series that a PromQL query reads. This is enough to decide whether the query
//! still returns data while the target of a ScaledObject has no pods. It is a scanner, not a parser.

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Series<'a> {
    pub name: &'a str,
    /// The matchers: label, operator, and value as written.
    pub matchers: Vec<(&'a str, &'a str, &'a str)>,
}

/// The parts of a query that the rules read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reads<'a> {
    pub series: Vec<Series<'a>>,
    /// Whether the query returns a value if a series is absent, with `vector` or `absent`.
    pub fills_gaps: bool,
}

const AGGREGATIONS: [&str; 14] = [
    "sum",
    "min",
    "max",
    "avg",
    "group",
    "stddev",
    "stdvar",
    "count",
    "count_values",
    "bottomk",
    "topk",
    "quantile",
    "limitk",
    "limit_ratio",
];
const LISTS: [&str; 6] = ["by", "without", "on", "ignoring", "group_left", "group_right"];
const WORDS: [&str; 10] = ["and", "or", "unless", "bool", "offset", "atan2", "start", "end", "inf", "nan"];

/// Scans a query. `None` if the text is not understood, or if it selects series without a metric name.
pub fn reads(query: &str) -> Option<Reads<'_>> {
    let mut scanner = Scanner { text: query, at: 0 };
    let mut out = Reads::default();
    while let Some(byte) = scanner.peek() {
        match byte {
            b'\'' | b'"' | b'`' => {
                scanner.string()?;
            }
            b'[' => scanner.skip_past(b']')?,
            b'#' => scanner.skip_line(),
            b'{' => return None,
            b'0'..=b'9' | b'.' => {
                scanner.while_in(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_'));
            }
            _ if is_name(byte) => {
                let name = scanner.while_in(|b| is_name(b) || b.is_ascii_digit());
                scanner.blanks();
                let next = scanner.peek();
                let lower = name.to_ascii_lowercase();
                if LISTS.contains(&lower.as_str()) {
                    if next == Some(b'(') {
                        scanner.skip_past(b')')?;
                    }
                } else if next == Some(b'(') {
                    // `vector(0)` counts as no value, like an absent series.
                    let zero = query[scanner.at..].replace(' ', "").starts_with("(0)");
                    out.fills_gaps |= lower.starts_with("absent") || (lower == "vector" && !zero);
                } else if next == Some(b'{') {
                    out.series.push(Series { name, matchers: scanner.matchers()? });
                } else if !WORDS.contains(&lower.as_str()) && !AGGREGATIONS.contains(&lower.as_str()) {
                    out.series.push(Series { name, matchers: Vec::new() });
                }
            }
            _ => scanner.at += query[scanner.at..].chars().next()?.len_utf8(),
        }
    }
    Some(out)
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || matches!(byte, b'_' | b':')
}

struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scanner<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn while_in(&mut self, accepts: impl Fn(u8) -> bool) -> &'a str {
        let from = self.at;
        while self.peek().is_some_and(&accepts) {
            self.at += 1;
        }
        &self.text[from..self.at]
    }

    fn blanks(&mut self) {
        self.while_in(|b| b.is_ascii_whitespace());
    }

    fn skip_past(&mut self, end: u8) -> Option<()> {
        self.at += self.text.as_bytes()[self.at..].iter().position(|b| *b == end)? + 1;
        Some(())
    }

    fn skip_line(&mut self) {
        self.while_in(|b| b != b'\n');
    }

    /// The content of a string, with its escape sequences.
    fn string(&mut self) -> Option<&'a str> {
        let quote = self.peek()?;
        let from = self.at + 1;
        self.at = from;
        loop {
            match self.peek()? {
                b'\\' if quote != b'`' => self.at += 2,
                byte => {
                    self.at += 1;
                    if byte == quote {
                        return self.text.get(from..self.at - 1);
                    }
                }
            }
        }
    }

    fn matchers(&mut self) -> Option<Vec<(&'a str, &'a str, &'a str)>> {
        let mut out = Vec::new();
        self.at += 1;
        loop {
            self.while_in(|b| b.is_ascii_whitespace() || b == b',');
            if self.peek()? == b'}' {
                self.at += 1;
                return Some(out);
            }
            let label = self.while_in(|b| is_name(b) || b.is_ascii_digit());
            self.blanks();
            let operator = self.while_in(|b| matches!(b, b'=' | b'!' | b'~'));
            self.blanks();
            if label.is_empty() || !matches!(self.peek()?, b'\'' | b'"' | b'`') {
                return None;
            }
            out.push((label, operator, self.string()?));
        }
    }
}

impl Series<'_> {
    /// Whether the query reads only the pods of a workload, selected by the prefix of their names.
    pub(crate) fn selects_pods_of(&self, workload: &str) -> bool {
        self.matchers.iter().any(|(label, operator, value)| {
            let rest = value.trim_start_matches('^').strip_prefix(workload);
            matches!(*label, "pod" | "exported_pod" | "pod_name" | "kubernetes_pod_name")
                && *operator == "=~"
                && rest.is_some_and(|rest| {
                    let rest = rest.trim_start_matches('-');
                    rest.is_empty() || rest.starts_with(['.', '[', '\\'])
                })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::reads;

    fn names(query: &str) -> Option<Vec<&str>> {
        reads(query).map(|reads| reads.series.iter().map(|series| series.name).collect())
    }

    #[test]
    fn the_series_of_a_query_are_found() {
        for (query, series) in [
            ("sum(vllm:num_requests_waiting)", vec!["vllm:num_requests_waiting"]),
            ("sum(rate(http_requests_total{job=\"a\"}[2m]))", vec!["http_requests_total"]),
            ("avg by (pod) (a) / on(pod) group_left(node) b", vec!["a", "b"]),
            ("max(a{x='}'}) or vector(0)", vec!["a"]),
            ("a offset 5m > bool 1e3 # b", vec!["a"]),
            ("1 + 2", vec![]),
            ("histogram_quantile(0.9, sum by (le) (rate(x_bucket[5m])))", vec!["x_bucket"]),
        ] {
            assert_eq!(names(query), Some(series), "{query}");
        }
        for query in ["{__name__=\"a\"}", "a{b}", "a{b=1}", "a{b=\"c", "a[5m", "\"open"] {
            assert_eq!(names(query), None, "{query}");
        }
    }

    #[test]
    fn gaps_are_filled_or_not() {
        let fills = |query: &str| reads(query).unwrap().fills_gaps;
        assert!(fills("a or vector(1)") && fills("absent(a)") && fills("a or on() vector( 1 )"));
        assert!(!fills("a or vector(0)") && !fills("a or vector( 0 )") && !fills("sum(a)"));
    }

    #[test]
    fn pods_of_a_workload_are_told_from_those_of_others() {
        let own = |query: &str| reads(query).unwrap().series[0].selects_pods_of("llm");
        assert!(
            own("a{pod=~\"llm-.*\"}") && own("a{exported_pod=~\"^llm.+\"}") && own("a{pod=~'llm-[a-z]+'}")
        );
        assert!(!own("a{pod=~\"llm-router-.*\"}") && !own("a{pod!~\"llm-.*\"}") && !own("a{app=\"llm\"}"));
    }
}
