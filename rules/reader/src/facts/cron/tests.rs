use super::*;
use crate::facts::date::{days_from_civil, weekday};

fn at(y: i64, mo: u8, d: u8, h: i64, mi: i64) -> i64 {
    days_from_civil(y, mo, d) * DAY + h * 60 + mi
}

fn s(text: &str) -> Schedule {
    Schedule::parse(text).unwrap()
}

#[test]
fn table_accepted() {
    for text in [
        "0 9 * * 1-5",
        "0 9 * * MON-FRI",
        "0 9 * * mon-fri",
        "0 9 * * Mon-Fri",
        "0 9 * * sat,sun",
        "? ? ? ? ?",
        "0 */90 * * *",
        "1/2 * * * *",
        "  0   9\t* *  * ",
        "@yearly",
        "@annually",
        "@monthly",
        "@weekly",
        "@daily",
        "@midnight",
        "@hourly",
        "@daily ",
        "0 9 * JAN-mar *",
        "*-7 * * * *",
        "1,,2 * * * *",
        "+5 * * * *",
    ] {
        assert!(Schedule::parse(text).is_ok(), "{text}");
        assert_eq!(suggest(text), None);
    }
    assert_eq!(s("0 */90 * * *").minutes_of_day().collect::<Vec<_>>(), [0]);
    assert_eq!(s("0 20/2 * * *").minutes_of_day().collect::<Vec<_>>(), [1200, 1320]);
    assert_eq!(s("1/2 0 * * *").minutes_of_day().count(), 30);
    assert_eq!(s("@daily"), s("0 0 * * *"));
}

#[test]
fn table_refused_at_run_time() {
    use CronFieldError::{AboveMaximum, Backwards, BelowMinimum, NotANumber, TooManyParts, ZeroStep};
    use FieldName::{DayOfMonth, DayOfWeek, Hour, Minute, Month};
    for (text, field, item, problem) in [
        ("0 9 * * 7", DayOfWeek, "7", AboveMaximum),
        ("0 9 * * 1-7", DayOfWeek, "1-7", AboveMaximum),
        ("0 9 * * sat-sun", DayOfWeek, "sat-sun", Backwards),
        ("0 9 * * 5-1", DayOfWeek, "5-1", Backwards),
        ("0 24 * * *", Hour, "24", AboveMaximum),
        ("60 * * * *", Minute, "60", AboveMaximum),
        ("0 9 * * monday", DayOfWeek, "monday", NotANumber),
        ("0 9 L * *", DayOfMonth, "L", NotANumber),
        ("0 9 15W * *", DayOfMonth, "15W", NotANumber),
        ("0 9 * * 1#2", DayOfWeek, "1#2", NotANumber),
        ("H 9 * * *", Minute, "H", NotANumber),
        ("*/0 * * * *", Minute, "*/0", ZeroStep),
        ("0 9 * 13 *", Month, "13", AboveMaximum),
        ("0 9 0 * *", DayOfMonth, "0", BelowMinimum),
        ("0 9 32 * *", DayOfMonth, "32", AboveMaximum),
        ("0 9 * * 1,9,2", DayOfWeek, "9", AboveMaximum),
        ("0 1-2-3 * * *", Hour, "1-2-3", TooManyParts),
        ("*/2/2 * * * *", Minute, "*/2/2", TooManyParts),
        ("0 9 * * -1", DayOfWeek, "-1", NotANumber),
    ] {
        let error = CronError::Field { field, text: item.to_owned(), problem };
        assert_eq!(Schedule::parse(text), Err(error), "{text}");
        assert!(crd_accepts(text), "{text}");
    }
    assert_eq!(Schedule::parse("0 0 9 * * *"), Err(CronError::FieldCount { found: 6 }));
    for text in ["TZ=UTC 0 9 * * *", "CRON_TZ=Asia/Seoul 0 9 * * *"] {
        assert!(matches!(Schedule::parse(text), Err(CronError::TimeZone(_))));
        assert!(crd_accepts(text));
    }
    for text in ["@dailyfoo", "@daily 9 * *"] {
        assert!(matches!(Schedule::parse(text), Err(CronError::Descriptor(_))));
        assert!(crd_accepts(text));
    }
}

#[test]
fn table_refused_by_crd() {
    for text in ["@every 1h", "@reboot", "@Daily", " @daily", "0 9 * *", "", "0 9 * * *\n", "0  9 *"] {
        assert!(!crd_accepts(text), "{text}");
    }
    assert!(crd_accepts(" 0 9 * * * "));
    assert!(crd_accepts("x\n0 9 * * *"));
    assert!(crd_accepts("0 9   * *"), "three blanks hide a missing field");
    assert!(matches!(Schedule::parse("@every 1h"), Err(CronError::Descriptor(_))));
}

#[test]
fn either_or_rule_and_star_bit() {
    // 2026-02-13 is a Friday, 2026-02-15 a Sunday.
    let (fri13, sun15) = (days_from_civil(2026, 2, 13), days_from_civil(2026, 2, 15));
    assert_eq!((weekday(fri13), weekday(sun15)), (5, 0));
    let either = s("0 0 15 * 5");
    assert!(either.fires_on(fri13) && either.fires_on(sun15) && !either.fires_on(fri13 + 1));
    let both = s("0 0 15 * *");
    assert!(!both.fires_on(fri13) && both.fires_on(sun15));
    for unrestricted in ["*", "?", "*/1", "3,*"] {
        assert!(!s(&format!("0 0 15 * {unrestricted}")).fires_on(fri13), "{unrestricted}");
    }
    for restricted in ["0-6", "*/2"] {
        assert!(s(&format!("0 0 14 * {restricted}")).fires_on(sun15), "{restricted}");
    }
    assert!(s("0 0 1-31 * 1").fires_on(fri13), "1-31 counts as restricted");
    assert_eq!(s("0 0 1-31 * 1").weekly_days(), Some(0x7f));
    assert_eq!(s("0 0 * * MON-FRI").weekly_days(), Some(0b011_1110));
    assert_eq!(s("0 0 1 * *").weekly_days(), None);
    assert_eq!(s("0 0 * 1-6 *").weekly_days(), None);
    assert_eq!(s("0 0 15 * 5").weekly_days(), None);
}

#[test]
fn next_hits() {
    let base = at(2026, 2, 13, 8, 59);
    assert_eq!(s("0 9 * * *").next(base), Some(base + 1));
    assert_eq!(s("0 9 * * *").next(base + 1), Some(base + 1 + DAY));
    assert_eq!(s("0 9 * * 1").next(base), Some(at(2026, 2, 16, 9, 0)));
    assert_eq!(s("@yearly").next(base), Some(at(2027, 1, 1, 0, 0)));
    assert_eq!(s("0 0 29 2 *").next(base), Some(at(2028, 2, 29, 0, 0)));
    assert_eq!(s("0 0 29 2 *").next(at(2096, 3, 1, 0, 0)), None);
    assert_eq!(s("0 0 1 1 *").next(at(1960, 6, 1, 0, 0)), Some(at(1961, 1, 1, 0, 0)));
    assert!(s("* * * * *").next(i64::MAX).is_some() && s("* * * * *").next(i64::MIN).is_some());
    for text in ["0 9 31 2 *", "0 9 30 2 *", "0 9 31 4,6,9,11 *", ", * * * *", "0 0 , * *"] {
        assert!(s(text).never_fires(), "{text}");
        assert_eq!(s(text).next(base), None, "{text}");
    }
    for text in ["0 9 31 2 1", "0 9 29 2 *", "0 0 , * 1", "0 9 31 * *"] {
        assert!(!s(text).never_fires(), "{text}");
        assert!(s(text).next(base).is_some(), "{text}");
    }
}

#[test]
fn suggestions() {
    for (text, out) in [
        ("0 9 * * 7", Some("0 9 * * 0")),
        ("0 9 * * 6,7", Some("0 9 * * 6,0")),
        ("0 9 * * 6-7", Some("0 9 * * 6,0")),
        ("0 9 * * 1-7", Some("0 9 * * *")),
        ("0 9 15 * 1-7", None),
        ("0 9 * * sat-sun", Some("0 9 * * sat,sun")),
        ("0 9 * * 5-1", Some("0 9 * * 5,6,0,1")),
        ("0 9 * * monday-Friday", Some("0 9 * * mon-Fri")),
        ("0 9 * january *", Some("0 9 * jan *")),
        ("TZ=UTC 0 9 * * *", Some("0 9 * * *")),
        ("CRON_TZ=UTC 0 9 * * 7", Some("0 9 * * 0")),
        ("CRON_TZ=UTC @daily", Some("@daily")),
        ("TZ=Asia/Seoul 0 9 * * *", None),
        ("@Daily", Some("@daily")),
        ("0 24 * * *", None),
        ("0 0 9 * * *", None),
        ("0 9 * *", None),
    ] {
        assert_eq!(suggest(text).as_deref(), out, "{text}");
    }
}

#[test]
fn civil_round_trip() {
    for day in (-800_000..800_000).step_by(13) {
        let (y, m, d) = civil_from_days(day);
        assert_eq!(days_from_civil(y, m, d), day);
    }
    assert_eq!(days_from_civil(1970, 1, 1), 0);
    assert_eq!(days_from_civil(2028, 1, 3), 21_186);
    assert_eq!(weekday(21_186), 1);
}

#[test]
fn days_that_meet_either_field_are_counted() {
    let days = |text: &str| s(text).days_of_either_and_both();
    assert_eq!(days("0 0 1-7 * mon"), Some((10, 1)));
    assert_eq!(days("0 7 1-5 * 1-5"), Some((23, 4)));
    assert_eq!(days("0 6 25-31 12 fri"), Some((11, 1)));
    for text in [
        "0 0 * * mon",
        "0 0 1-7 * *",
        "0 0 1-7 * */1",
        "0 0 1,15 * mon",
        "0 0 1-31 * mon",
        "0 0 */2 * 1-5",
        "0 0 1-7 * 0-6",
    ] {
        assert_eq!(days(text), None, "{text}");
    }
}
