//! Tables of facts: one row a line, its fields between tabs. Lines that begin with `#` are comments.

/// The rows of a table. A row with another number of fields is left out, and fails every test that reads the table.
pub(crate) fn rows<const N: usize>(text: &'static str) -> impl Iterator<Item = [&'static str; N]> {
    text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
        let mut fields = line.split('\t');
        let row: [Option<&str>; N] = std::array::from_fn(|_| fields.next());
        let is_whole = row.iter().all(Option::is_some) && fields.next().is_none();
        debug_assert!(is_whole, "a row of {N} fields: {line}");
        is_whole.then(|| row.map(Option::unwrap_or_default))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_their_fields() {
        let all: Vec<[&str; 2]> = rows("# name\tvalue\na\t1\nb\t\n").collect();
        assert_eq!(all, [["a", "1"], ["b", ""]]);
    }

    #[cfg(debug_assertions)]
    #[test]
    #[should_panic(expected = "a row of 2 fields")]
    fn a_row_without_a_field_fails_tests() {
        let _ = rows::<2>("a\t1\nb\n").count();
    }
}
