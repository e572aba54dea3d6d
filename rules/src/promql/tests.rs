//! Valid, invalid and unknown queries.

use super::bound::upper_bound;
use super::expr::{Aggregate, ResultType};
use super::factor::grown_by;
use super::series::{Series, series};
use super::{Expr, Parsed, parse};

fn known(text: &str) -> Expr {
    match parse(text) {
        Parsed::Known(expr) => expr,
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn right_queries_are_known() {
    for text in [
        "up",
        "up{}",
        "{job=\"a\"}",
        "{\"up\"}",
        "{__name__=\"up\"}",
        "vllm:num_requests_waiting{model_name=\"a\"}",
        "up{pod=~\"a-.*\", namespace!~'b', c=`d`,}",
        "sum(rate(requests_total[5m]))",
        "sum(rate(requests_total{code=~\"5..\"}[5m])) by (pod)",
        "sum by (pod, ) (up)",
        "sum without (instance) (up)",
        "SUM(up) BY (pod)",
        "histogram_quantile(0.99, sum by (le) (rate(vllm:time_to_first_token_seconds_bucket[5m])))",
        "avg_over_time(up[10m:1m])",
        "max_over_time(sum(up)[1h:])",
        "a / on (pod) group_left (node) b",
        "a and on () b or vector(0) unless c",
        "(a > bool 1) * 100",
        "-a ^ 2 % 3",
        "up offset 5m",
        "up offset -1h",
        "up @ end()",
        "up @ 1609746000",
        "topk(3, up)",
        "quantile(0.9, up)",
        "count_values(\"version\", build_info)",
        "label_replace(up, \"a\", \"x\", \"b\", \"(.*)\")",
        "absent(up{job=\"a\"})",
        "clamp_max(up, 1)",
        "time() - 3600",
        "1h",
        "0x1F",
        "1e3",
        "up # all of them",
        "up\n  /\n# of\nup",
        "predict_linear(disk_free[1h], 4 * 3600)",
        "day_of_week() > 5",
        "by",
    ] {
        assert!(matches!(parse(text), Parsed::Known(_)), "{text}: {:?}", parse(text));
    }
}

#[test]
fn wrong_queries_say_what_is_wrong() {
    for (text, reason) in [
        ("avg(up", "a `(` is never closed"),
        ("sum(rate(x[5m])", "a `(` is never closed"),
        ("avg(up))", "a `)` closes nothing"),
        ("up}", "a `}` closes nothing"),
        ("up]", "a `]` closes nothing"),
        ("up{pod=\"a\"", "a `{` is never closed"),
        ("rate(up[5m", "a `[` is never closed"),
        ("up{pod=\"a}", "a string is never closed"),
        ("rate(up)", "`rate` needs a range, as in `rate(metric[5m])`"),
        ("sum(irate(up{a=\"b\"}))", "`irate` needs a range, as in `irate(metric[5m])`"),
        ("max_over_time(up)", "`max_over_time` needs a range, as in `max_over_time(metric[5m])`"),
        ("abs(up[5m])", "`abs` does not accept a range"),
        ("average(up)", "there is no function `average`"),
        ("avg_ove_time(up[5m])", "there is no function `avg_ove_time`"),
        ("sum(up) >", "nothing follows `>`"),
        ("sum(up) and", "nothing follows `and`"),
        ("sum(up) / ", "nothing follows `/`"),
        ("up up", "two of its parts have no operator between them, or one is missing"),
        ("sum(up) by pod", "two of its parts have no operator between them, or one is missing"),
        ("up{pod=a}", "the value of a label is not in quotes"),
        ("sum(up{pod=\"a\"}})", "a `}` closes nothing"),
        (
            "sum(rate(x_total{job=\"a\"[5m]}))",
            "a range follows the `}` of a selector, and is not inside its braces",
        ),
        ("up{job=\"a\", [5m]}", "a range follows the `}` of a selector, and is not inside its braces"),
        ("rate({job=\"a\"[5m]})", "a range follows the `}` of a selector, and is not inside its braces"),
        (
            "max(up{name=~\"default\"[1m]})",
            "a range follows the `}` of a selector, and is not inside its braces",
        ),
        ("sum(up{path=\"with (a)\"}", "a `(` is never closed"),
        ("up{path=\"{job}\"", "a `{` is never closed"),
        ("sum(up{job=\"a\")", "a `{` is not closed before `)`"),
        ("up{job:\"a\"}", "`:` does not belong between the braces of a selector"),
        ("up{job=\"a\" | pod=\"b\"}", "`|` does not belong between the braces of a selector"),
        ("up{job in (\"a\")}", "`(` does not belong between the braces of a selector"),
        ("up{code>\"500\"}", "`>` does not belong between the braces of a selector"),
        ("up{job!\"a\"}", "a label is compared with `!` alone: the operators are `=`, `!=`, `=~` and `!~`"),
        ("up{job==\"a\"}", "`=` is where the value of a label has to be, in quotes"),
        ("1 > 2", "two numbers are compared without `bool`"),
        ("up + up[5m]", "binary expression must contain only scalar and instant vector types"),
        ("up > bool", "two of its parts have no operator between them, or one is missing"),
        ("sum(up) + bool 1", "bool modifier can only be used on comparison operators"),
        ("# only a comment", "it is only a comment"),
        ("", "it is empty"),
    ] {
        match parse(text) {
            Parsed::Invalid(found) => assert_eq!(found, reason, "{text}"),
            other => panic!("{text}: {other:?}"),
        }
    }
}

#[test]
fn what_is_not_certain_is_unknown() {
    let deep = format!("{}up{}", "(".repeat(100), ")".repeat(100));
    let long = format!("up{}", " + up".repeat(500));
    for text in [
        // Templates and variables.
        "sum(rate(x[$__rate_interval]))",
        "up{pod=\"$pod\"} + on($label) up",
        "up > ${THRESHOLD}",
        "up{job=\"{{ .Values.job }}\"}",
        "up{{{ .Values.selector }}}",
        "up{job=\"a\"{{ .Values.more }}[5m]}",
        "[[metric]]",
        "sum(<% metric %>)",
        // LogQL.
        "sum(count_over_time({app=\"a\"} |= \"error\" [5m]))",
        "{app=\"a\"} | json | status >= 400",
        "sum(rate({app=\"a\"} != \"error\" [5m]))",
        // MetricsQL.
        "median_over_time(up[5m])",
        "up{job=\"a\" or job=\"b\"}",
        "up{http.status=\"500\"}",
        "rate(up) keep_metric_names",
        "up default 0",
        "up # it's\n default 0",
        "WITH (a = up) a",
        "with (a = up) a",
        // Newer syntax.
        "rate(x[5m + 1m])",
        "rate(x[5m] smoothed)",
        "x offset (1m)",
        // Durations that do not exist stop the parser.
        "rate(x[99999999999999999999])",
        "rate(x[1e30])",
        "x offset 1e30",
        &deep,
        &long,
    ] {
        assert_eq!(parse(text), Parsed::Unknown, "{text}");
    }
}

#[test]
fn the_number_of_series() {
    for (text, expected) in [
        ("sum(up)", Series::One),
        ("avg(DCGM_FI_DEV_GPU_UTIL)", Series::One),
        ("vector(1)", Series::One),
        ("absent(up)", Series::One),
        ("topk(1, up)", Series::One),
        ("sum(up) / sum(up)", Series::One),
        ("sum(up) / up", Series::One),
        ("sum(up) * 100", Series::One),
        ("sum(up) or vector(0)", Series::One),
        ("sum by () (up)", Series::One),
        ("sum by (queue) (depth{queue=\"a\"})", Series::One),
        ("histogram_quantile(0.9, sum by (le) (rate(x_bucket[5m])))", Series::One),
        ("max_over_time(sum(up)[5m:])", Series::One),
        ("scalar(up) * sum(up)", Series::One),
        ("sum(up) > 5", Series::One),
        ("sum(up) and up", Series::One),
        ("up", Series::Many),
        ("rate(x[5m])", Series::Many),
        ("sum by (pod) (up)", Series::Many),
        ("sum without (pod) (up)", Series::Many),
        ("topk(2, up)", Series::Many),
        ("up / up", Series::Many),
        ("up * 100", Series::Many),
        ("up or vector(0)", Series::Many),
        ("up / on () group_left () sum(up)", Series::Many),
        ("histogram_quantile(0.9, sum by (le, pod) (rate(x_bucket[5m])))", Series::Many),
        ("histogram_quantile(0.9, rate(x_bucket[5m]))", Series::Many),
        ("vllm:num_requests_waiting", Series::EachPod),
        ("vllm_num_requests_waiting", Series::EachPod),
        ("DCGM_FI_DEV_GPU_UTIL{namespace=\"a\"}", Series::EachPod),
        ("DCGM_FI_DEV_GPU_UTIL{pod=\"a\"}", Series::Unknown),
        ("job:requests:rate5m", Series::Unknown),
        ("{job=\"a\"}", Series::Unknown),
        ("label_replace(up, \"a\", \"b\", \"c\", \"d\")", Series::Unknown),
    ] {
        assert_eq!(series(&known(text)), expected, "{text}");
    }
}

#[test]
fn the_largest_value() {
    for (text, expected) in [
        ("avg(DCGM_FI_DEV_GPU_UTIL)", Some(100.0)),
        ("max(max_over_time(DCGM_FI_DEV_GPU_UTIL[5m]))", Some(100.0)),
        ("quantile(0.9, DCGM_FI_DEV_GPU_UTIL)", Some(100.0)),
        ("sum(DCGM_FI_DEV_GPU_UTIL) / count(DCGM_FI_DEV_GPU_UTIL)", Some(100.0)),
        ("avg(DCGM_FI_PROF_GR_ENGINE_ACTIVE)", Some(1.0)),
        ("avg(DCGM_FI_PROF_GR_ENGINE_ACTIVE) * 100", Some(100.0)),
        ("100 * avg(vllm:kv_cache_usage_perc)", Some(100.0)),
        ("avg(DCGM_FI_DEV_GPU_UTIL) / 100", Some(1.0)),
        ("avg(DCGM_FI_DEV_GPU_UTIL) or vector(0)", Some(100.0)),
        ("avg(DCGM_FI_DEV_GPU_UTIL) > 5", Some(100.0)),
        ("100 - avg(DCGM_FI_DEV_GPU_UTIL)", Some(100.0)),
        ("DCGM_FI_DEV_FB_USED / (DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE)", Some(1.0)),
        ("sum(DCGM_FI_DEV_FB_USED) / sum(DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE) * 100", Some(100.0)),
        ("sum(DCGM_FI_DEV_FB_USED) / (sum(DCGM_FI_DEV_FB_USED) + sum(DCGM_FI_DEV_FB_FREE))", Some(1.0)),
        ("clamp_max(sum(up), 5)", Some(5.0)),
        ("sum(DCGM_FI_DEV_GPU_UTIL)", None),
        ("count(DCGM_FI_DEV_GPU_UTIL)", None),
        ("avg(vllm:num_requests_waiting)", None),
        ("avg(DCGM_FI_DEV_GPU_UTIL) * count(DCGM_FI_DEV_GPU_UTIL)", None),
        ("avg(DCGM_FI_DEV_GPU_UTIL) * scalar(kube_deployment_status_replicas)", None),
        ("sum(rate(a_sum[5m])) / sum(rate(a_count[5m]))", None),
        ("DCGM_FI_DEV_FB_USED / DCGM_FI_DEV_FB_FREE", None),
        ("DCGM_FI_DEV_GPU_TEMP", None),
    ] {
        assert_eq!(upper_bound(&known(text)), expected, "{text}");
    }
}

#[test]
fn the_type_of_the_result() {
    for (text, expected) in [
        ("1 + 1", ResultType::Scalar),
        ("time()", ResultType::Scalar),
        ("scalar(sum(up))", ResultType::Scalar),
        ("-scalar(up)", ResultType::Scalar),
        ("vector(1)", ResultType::Vector),
        ("scalar(up) + up", ResultType::Vector),
        ("up[5m]", ResultType::Range),
        ("sum(up)[5m:]", ResultType::Range),
        ("\"up\"", ResultType::Text),
    ] {
        assert_eq!(known(text).result(), expected, "{text}");
    }
}

#[test]
fn a_factor_in_sums_is_in_some_results() {
    let grown = |aggregate: &Aggregate| matches!(aggregate.op.as_str(), "sum" | "count");
    let is = |text: &str, as_condition: bool| grown_by(&known(text), &grown, as_condition).is_some();
    for text in
        ["sum(a)", "max(sum by (x) (a))", "sum(a) / 2", "10 / sum(a)", "sum(a) > 0", "sum(a) or vector(0)"]
    {
        assert!(is(text, false), "{text}");
    }
    for text in [
        "avg(a)",
        "sum(a) / sum(b)",
        "sum(a) / count(a)",
        "100 * sum(a) / clamp_min(sum(b), 1)",
        "histogram_quantile(0.9, sum by (le) (rate(a[5m])))",
        "sum(a) == 0",
        "sum(a) > bool 0",
        "b and sum(a) > 0",
        "absent(sum(a))",
        "group(sum by (x) (a))",
    ] {
        assert!(!is(text, false), "{text}");
    }
    assert!(is("sum(a) > 5", true) && is("sum(a) > sum(b)", false));
    assert!(!is("sum(a) > 0", true) && !is("sum(a) > sum(b)", true) && !is("0 < sum(a)", true));
}
