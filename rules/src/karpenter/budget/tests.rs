use super::calendar::MAX_BUDGETS;
use super::*;
use crate::facts::date::REFERENCE_MONDAY;
use DisruptionReason::{Drifted, Empty, Underutilized};

fn budget(nodes: &str, schedule: Option<&str>, hours: f64, reasons: Option<&[DisruptionReason]>) -> Budget {
    Budget {
        nodes: Nodes::parse(nodes).unwrap(),
        schedule: schedule.map(Schedule::parse),
        duration: schedule.map(|_| (hours * 3600.0) as u64),
        reasons: reasons.map(<[DisruptionReason]>::to_vec),
    }
}

fn plain(nodes: &str) -> Budget {
    Budget::unconditional(Nodes::parse(nodes).unwrap())
}

fn timed(nodes: &str, schedule: &str, hours: f64) -> Budget {
    budget(nodes, Some(schedule), hours, None)
}

/// Compares the segments with Karpenter's own rule, minute by minute where states can change.
#[track_caller]
fn check_against_direct_rule(budgets: &[Budget]) {
    let calendar = Calendar::new(budgets);
    let (start, length) = calendar.span();
    for reason in DisruptionReason::ALL {
        let stretches = calendar.intervals(reason);
        assert_eq!(stretches.iter().map(|s| s.minutes).sum::<i64>(), length);
        for s in &stretches {
            for offset in [0, 1, s.minutes / 3, s.minutes / 2, s.minutes - 1] {
                if offset >= s.minutes {
                    continue;
                }
                let state = match calendar.allowance_at(reason, start + s.start + offset, 50) {
                    Allowance::Nodes(0) => AllowanceState::Zero,
                    Allowance::Nodes(_) => AllowanceState::Limited,
                    Allowance::Unlimited => AllowanceState::Unlimited,
                };
                assert_eq!(state, s.state, "{budgets:?} {s:?} +{offset}");
            }
        }
    }
}

#[test]
fn nodes_parse_and_value() {
    for text in ["", "%", "101%", "010%", "-1", "1.5%", "+1", "10 %", "99999999999999999999"] {
        assert_eq!(Nodes::parse(text), None, "{text}");
    }
    assert_eq!(Nodes::parse("00%"), Some(Nodes::Percent(0)));
    for (text, n, value) in [
        ("10%", 3, 1),
        ("10%", 10, 1),
        ("10%", 11, 2),
        ("0%", 1000, 0),
        ("100%", 7, 7),
        ("5", 1, 5),
        ("4294967296", 9, 0),
        ("4294967297", 9, 1),
        ("2147483648", 9, 0),
    ] {
        assert_eq!(Nodes::parse(text).unwrap().value(n), value, "{text} of {n}");
    }
}

#[test]
fn minutes_count_once_however_many_budgets_are_active() {
    let closed = |calendar: &Calendar| calendar.minutes_of(|budget| budget.nodes.is_zero());
    let zero = [timed("0", "0 9 * * 1-5", 8.0), timed("0", "0 16 * * 5", 4.0)];
    let week = Calendar::new(&zero);
    assert_eq!((closed(&week), week.span().1), (5 * 480 + 180, WEEK));
    // A schedule of the month makes the span longer, and the share of the week stays.
    let [first, second] = zero;
    let months = Calendar::new(&[first, plain("20%"), timed("10%", "0 0 1 * *", 24.0), second]);
    assert_eq!(closed(&months) * WEEK, (5 * 480 + 180) * months.span().1);
    assert!(months.span().1 > WEEK);
    assert_eq!(week.minutes_of(|budget| !budget.nodes.is_zero()), 0);
}

#[test]
fn document_000_share_and_weekday_zero() {
    let budgets = [plain("20%"), timed("0", "0 9 * * 1-5", 8.0)];
    let calendar = Calendar::new(&budgets);
    assert_eq!(calendar.span(), (REFERENCE_MONDAY, WEEK));
    for reason in DisruptionReason::ALL {
        let c = calendar.coverage(reason);
        assert_eq!((c.zero_minutes, c.unlimited_minutes), (5 * 480, 0));
        // Friday 17:00 to Monday 09:00.
        assert_eq!(c.longest_open, 64 * 60);
        assert!(!c.permanently_zero && !c.permanently_unlimited);
    }
    assert!(calendar.shadowed().is_empty());
    let nine = REFERENCE_MONDAY + 540;
    assert_eq!(calendar.allowance_at(Drifted, nine - 1, 11), Allowance::Nodes(3));
    assert_eq!(calendar.allowance_at(Drifted, nine, 11), Allowance::Nodes(0));
    assert_eq!(calendar.allowance_at(Drifted, nine + 479, 11), Allowance::Nodes(0));
    assert_eq!(calendar.allowance_at(Drifted, nine + 480, 11), Allowance::Nodes(3));
    let grid = calendar.grid(Empty);
    assert_eq!((grid[0][8], grid[0][9], grid[4][16]), (Cell::Limited, Cell::Closed, Cell::Closed));
    assert_eq!((grid[4][17], grid[5][9], grid[6][9]), (Cell::Limited, Cell::Limited, Cell::Limited));
    check_against_direct_rule(&budgets);
}

#[test]
fn document_002_one_node_and_ten_hours() {
    let budgets = [plain("1"), timed("0", "0 9 * * MON-FRI", 10.0)];
    let c = Calendar::new(&budgets).coverage(Drifted);
    assert_eq!((c.zero_minutes, c.unlimited_minutes), (3000, 0));
    assert_eq!(c.longest_open, (5 + 48 + 9) * 60);
    check_against_direct_rule(&budgets);
}

#[test]
fn document_002_gpu_training_protected() {
    let budgets = [
        timed("0", "0 0 * * *", 23.0),
        timed("1", "0 23 * * *", 1.0),
        budget("1", None, 0.0, Some(&[Drifted])),
    ];
    let calendar = Calendar::new(&budgets);
    assert_eq!(calendar.shadowed(), [(2, ShadowKind::Shadowed)]);
    for reason in DisruptionReason::ALL {
        let c = calendar.coverage(reason);
        assert_eq!((c.zero_minutes, c.longest_open, c.unlimited_minutes), (7 * 23 * 60, 60, 0));
    }
    check_against_direct_rule(&budgets);
}

#[test]
fn plain_lists() {
    let zero = [plain("0")];
    assert!(DisruptionReason::ALL.iter().all(|r| Calendar::new(&zero).coverage(*r).permanently_zero));
    assert_eq!(Calendar::new(&zero).coverage(Empty).longest_open, 0);
    let none = Calendar::new(&[]);
    let c = none.coverage(Empty);
    assert!(c.permanently_unlimited && c.longest_open == WEEK && c.unlimited_minutes == WEEK);
    assert_eq!(none.allowance_at(Empty, 0, 5), Allowance::Unlimited);
    assert_eq!(none.grid(Empty), [[Cell::Unlimited; 24]; 7]);
    let idle = [budget("0", None, 0.0, Some(&[]))];
    assert!(Calendar::new(&idle).coverage(Drifted).permanently_unlimited);
    let default = Budget::default_list();
    assert_eq!(Calendar::new(&default).allowance_at(Empty, 0, 3), Allowance::Nodes(1));
    let some = [budget("0", None, 0.0, Some(&[Underutilized]))];
    let calendar = Calendar::new(&some);
    assert!(calendar.coverage(Underutilized).permanently_zero);
    assert!(calendar.coverage(Drifted).permanently_unlimited);
}

#[test]
fn only_scheduled_means_unlimited_outside() {
    let budgets = [timed("0", "0 0 * * MON-FRI", 9.0)];
    let c = Calendar::new(&budgets).coverage(Drifted);
    assert_eq!((c.zero_minutes, c.unlimited_minutes), (2700, WEEK - 2700));
    check_against_direct_rule(&budgets);
}

#[test]
fn unparsable_freezes_every_reason() {
    let budgets = [plain("10%"), budget("1", Some("0 9 * * 7"), 1.0, Some(&[Empty]))];
    let calendar = Calendar::new(&budgets);
    assert!(calendar.never_allows() && calendar.shadowed().is_empty());
    assert!(DisruptionReason::ALL.iter().all(|r| calendar.coverage(*r).permanently_zero));
    assert_eq!(calendar.allowance_at(Drifted, 0, 100), Allowance::Nodes(0));
    assert_eq!(calendar.grid(Drifted), [[Cell::Closed; 24]; 7]);
}

#[test]
fn always_active_windows() {
    for (schedule, hours, always) in [
        ("0 9 31 2 *", 0.0, true),
        ("@daily", 24.0, true),
        ("@daily", 23.0, false),
        ("@daily", 0.0, false),
        ("0 9 * * MON-FRI", 24.0, false),
        ("0 9 * * MON-FRI", 72.0, true),
        ("@weekly", 168.0, true),
        ("@weekly", 10_000.0, true),
        ("@hourly", 1.0, true),
        ("@monthly", 744.0, true),
        ("@monthly", 743.0, false),
        ("@yearly", 8784.0, true),
        ("@yearly", 8760.0, false),
        ("0 0 29 2 *", 35_064.0, true),
        ("0 0 29 2 *", 35_063.0, false),
        ("0 0 29 2 *", 2_562_047.0, true),
    ] {
        let budgets = [timed("0", schedule, hours)];
        let calendar = Calendar::new(&budgets);
        assert_eq!(calendar.always_active(0), always, "{schedule} {hours}");
        assert_eq!(calendar.coverage(Drifted).permanently_zero, always);
        check_against_direct_rule(&budgets);
    }
    assert!(!Calendar::new(&[plain("0")]).always_active(0));
}

#[test]
fn windows_across_the_week_end_and_months() {
    let budgets = [timed("0", "0 22 * * 0", 4.0), plain("5")];
    let calendar = Calendar::new(&budgets);
    let c = calendar.coverage(Drifted);
    assert_eq!((c.zero_minutes, c.longest_open), (240, WEEK - 240));
    assert_eq!(calendar.grid(Drifted)[0][1], Cell::Closed);
    check_against_direct_rule(&budgets);
    for (schedule, hours) in [
        ("0 9 1 * *", 48.0),
        ("30 6 1,15 * 5", 30.5),
        ("0 0 * 12 *", 24.0),
        ("*/7 3 1-7 * *", 0.1),
        ("0 0 29 2 *", 200.0),
    ] {
        let budgets = [timed("0", schedule, hours), timed("2", "0 6 * * MON-WED", 8.0)];
        let calendar = Calendar::new(&budgets);
        assert!(calendar.is_exact() && calendar.span().1 == 116 * WEEK);
        check_against_direct_rule(&budgets);
    }
    // December is closed for whole weeks: the worst week has no open minute.
    let december = [timed("0", "0 0 * 12 *", 24.0), plain("1")];
    let c = Calendar::new(&december).coverage(Drifted);
    assert_eq!((c.zero_minutes, c.longest_open, c.permanently_zero), (WEEK, 0, false));
}

#[test]
fn shadowing() {
    let kinds = |b: &[Budget]| Calendar::new(b).shadowed();
    assert_eq!(kinds(&[plain("10%"), plain("20%")]), [(1, ShadowKind::Shadowed)]);
    assert_eq!(kinds(&[plain("10%"), plain("10%")]), [(1, ShadowKind::Duplicate(0))]);
    assert_eq!(kinds(&[plain("10%"), plain("1")]), [(0, ShadowKind::Shadowed)]);
    assert!(kinds(&[plain("10%"), plain("99")]).is_empty());
    assert_eq!(kinds(&[plain("10%"), plain("100")]), [(1, ShadowKind::Shadowed)]);
    assert_eq!(kinds(&[plain("5"), budget("0", None, 0.0, Some(&[]))]), [(1, ShadowKind::NeverApplies)]);
    assert_eq!(kinds(&[plain("5"), timed("0", "@daily", 0.0)]), [(1, ShadowKind::NeverApplies)]);
    assert!(kinds(&[timed("5", "@daily", 1.0)]).is_empty());
    let parts = [timed("0", "0 9 * * *", 8.0), timed("0", "0 9 * * *", 4.0), timed("0", "0 13 * * *", 4.0)];
    assert_eq!(kinds(&parts), [(1, ShadowKind::Shadowed), (2, ShadowKind::Shadowed)]);
}

#[test]
fn covered_matches_brute_force() {
    let pool: Vec<Nodes> = [0, 1, 2, 3, 10, 33, 50, 99, 100]
        .map(Nodes::Percent)
        .into_iter()
        .chain([0, 1, 2, 5, 10, 11, 100, 329, 330, 990, 1000, 1001].map(Nodes::Count))
        .collect();
    for own in &pool {
        for a in &pool {
            for b in &pool {
                let brute = (1..=1000).all(|n| a.value(n).min(b.value(n)) <= own.value(n));
                let fast = calendar::is_covered(*own, [*a, *b].into_iter());
                assert_eq!(fast, brute, "{own} by {a} and {b}");
            }
        }
    }
    assert!(!calendar::is_covered(Nodes::Count(5), std::iter::empty()));
    assert!(!calendar::is_covered(Nodes::Count(2_147_483_647), std::iter::empty()));
}

#[test]
fn hostile_lists_stay_bounded() {
    let dense: Vec<Budget> = (0..50).map(|_| timed("1", "*/2 * 1-30 * *", 0.016)).collect();
    let calendar = Calendar::new(&dense);
    assert!(!calendar.is_exact());
    assert_eq!(calendar.shadowed().len(), 49);
    let many = vec![plain("1"); 1000];
    assert_eq!(Calendar::new(&many).shadowed().len(), MAX_BUDGETS - 1);
}
