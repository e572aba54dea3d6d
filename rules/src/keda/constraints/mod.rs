//! The constraints of `constraints.txt`: requirements of a scaler on several keys, or on one key beyond its type.
//!
//! A constraint is parsed when the table is loaded, and a line that cannot be parsed is an error of the
//! table. To add one, add a variant of [`Constraint`], a line of [`Constraint::parse`], and a function in the
//! file of its subject.

mod credentials;
mod numbers;
mod presence;
mod texts;
mod trigger_types;

use super::check::TriggerCheck;
use super::conditions::Condition;
use super::formats::Format;
use super::scalers::Scaler;
use super::value;
use numbers::Sign;

/// A constraint with the conditions under which it applies.
#[derive(Debug)]
pub(super) struct KeyConstraint {
    constraint: Constraint,
    /// The arguments, separated by spaces.
    keys: String,
    /// The conditions of the constraint, all of which must be true.
    when: Vec<Condition>,
    /// The conditions in words, for a message.
    because: String,
}

/// The name of a key of the trigger type.
type Key = &'static str;

/// A constraint. The comment of each variant begins with its form in the table.
#[derive(Debug)]
enum Constraint {
    /// `need(KEY|KEY=VALUE,...)`: each key is present, or has the value.
    Need(Vec<Condition>),
    /// `any_of(CONDITION,...)`: at least one of them is true.
    AnyOf(Vec<Condition>),
    /// `one_of(CONDITION,...)`: exactly one of them is true.
    OneOf(Vec<Condition>),
    /// `not_both(CONDITION,CONDITION)`
    NotBoth(Condition, Condition),
    /// `together(KEY,...)`: all of them are present, or none.
    Together(Vec<Key>),
    /// `forbid(KEY)`
    Forbid(Key),
    /// `no_metric_type(KEY)`: the key excludes the trigger's `metricType`.
    NoMetricType(Key),
    /// `contains_or_need(KEY,TEXT,OTHER)`: the text of KEY contains TEXT, or OTHER is present.
    ContainsOrNeed(Key, &'static str, Key),
    /// `port_in(PORT,ADDRESS)`: the port is present unless the address has one.
    PortIn(Key, Key),
    /// `positive(KEY)`, `nonneg(KEY)`, `nonzero(KEY)`, `replicas(KEY)`
    Sign(Sign, Key),
    /// `any_positive(KEY,...)`: at least one of the numbers is 1 or more.
    AnyPositive(Vec<Key>),
    /// `differs_from(KEY,VALUE)`: the scaler treats VALUE as absent.
    DiffersFrom(Key, &'static str),
    /// `min(KEY,NUMBER)`
    Min(Key, f64),
    /// `range(KEY,NUMBER,NUMBER)`
    Range(Key, f64, f64),
    /// `below(KEY,LIMIT)`: the key is below another.
    Below(Key, Key),
    /// `multiple(KEY,UNIT)`: the key is a multiple of another.
    Multiple(Key, Key),
    /// `format(FORMAT,KEY)`: `formats.rs` has the formats.
    Format(&'static Format, Key),
    /// `enum(KEY,VALUE,...)`
    Enum(Key, Vec<&'static str>),
    /// `enum_any_case(KEY,VALUE,...)`
    EnumAnyCase(Key, Vec<&'static str>),
    /// `enum_at_poll(KEY,VALUE,...)`: KEDA builds the scaler, and each poll fails.
    EnumAtPoll(Key, Vec<&'static str>),
    /// `items(KEY,VALUE,...)`: each item of the list is one of these.
    Items(Key, Vec<&'static str>),
    /// `differ(KEY,KEY)`
    Differ(Key, Key),
    /// `same_length(KEY,KEY)`: the lists have the same number of items.
    SameLength(Key, Key),
    /// `cron(KEY)`: a schedule of five fields.
    Cron(Key),
    /// `zone(KEY)`: a time zone of the IANA database. KEDA builds the scaler, and each poll fails.
    Zone(Key),
    /// `one_place(KEY)`: the key is not both in the metadata and in the TriggerAuthentication.
    OnePlace(Key),
    /// `identities(PROVIDER,...)`: the pod identity is one of these.
    Identities(Vec<&'static str>),
    /// `need_parameter(PARAMETER)`: the TriggerAuthentication has the parameter.
    NeedParameter(&'static str),
    /// `aws_credentials()`
    AwsCredentials,
    /// `gcp_credentials()`
    GcpCredentials,
    /// `openstack_login()`
    OpenstackLogin,
    /// `rabbit_protocol()`: features that AMQP does not support require the management API.
    RabbitProtocol,
    /// `sumo_rows()`: the keys `query.ROW` of Sumo Logic.
    SumoRows,
}

impl KeyConstraint {
    /// Parses `NAME(ARGUMENT,...) [if CONDITION & CONDITION]`.
    pub(super) fn parse(text: &'static str, scaler: &Scaler) -> Result<KeyConstraint, String> {
        let (head, when) = text.split_once(" if ").map_or((text, None), |(head, when)| (head, Some(when)));
        let when: Vec<&str> = when.into_iter().flat_map(|when| when.split(" & ")).collect();
        let parts = head.strip_suffix(')').and_then(|head| head.split_once('('));
        let (name, args) = parts.ok_or("a constraint is `NAME(ARGUMENT,...)`")?;
        let args: Vec<&str> = args.split(',').filter(|arg| !arg.is_empty()).collect();
        Ok(KeyConstraint {
            constraint: Constraint::parse(name, &args, scaler)?,
            keys: args.join(" "),
            because: when.join(", "),
            when: when.into_iter().map(|text| Condition::parse(text, scaler)).collect::<Result<_, _>>()?,
        })
    }

    /// The arguments, which identify the problems that the constraint reports.
    pub(super) fn keys(&self) -> &str {
        &self.keys
    }

    pub(super) fn check(&self, check: &mut TriggerCheck<'_>) {
        if self.when.iter().all(|condition| condition.evaluate(check) == Some(true)) {
            self.constraint.check(&self.because, check);
        }
    }
}

impl Constraint {
    fn parse(name: &str, args: &[&'static str], scaler: &Scaler) -> Result<Constraint, String> {
        let key = |name| scaler.checked_key(name);
        let keys = |names: &[&'static str]| names.iter().map(|name| key(name)).collect::<Result<Vec<_>, _>>();
        let amount = |name| scaler.checked_number(name);
        let condition = |text| Condition::parse(text, scaler);
        let conditions =
            |texts: &[&'static str]| texts.iter().map(|text| condition(text)).collect::<Result<Vec<_>, _>>();
        let number = |text| value::number(text).ok_or_else(|| format!("`{text}` is not a number"));
        Ok(match (name, args) {
            ("need", [_, ..]) => Constraint::Need(presence::fields(conditions(args)?)?),
            ("any_of", [_, _, ..]) => Constraint::AnyOf(conditions(args)?),
            ("one_of", [_, _, ..]) => Constraint::OneOf(conditions(args)?),
            ("not_both", [first, second]) => Constraint::NotBoth(condition(first)?, condition(second)?),
            ("together", [_, _, ..]) => Constraint::Together(keys(args)?),
            ("forbid", [one]) => Constraint::Forbid(key(one)?),
            ("no_metric_type", [one]) => Constraint::NoMetricType(key(one)?),
            ("contains_or_need", [one, text, other]) => {
                Constraint::ContainsOrNeed(key(one)?, text, key(other)?)
            }
            ("port_in", [port, address]) => Constraint::PortIn(key(port)?, key(address)?),
            ("positive", [one]) => Constraint::Sign(Sign::Positive, amount(one)?),
            ("nonneg", [one]) => Constraint::Sign(Sign::NonNegative, amount(one)?),
            ("nonzero", [one]) => Constraint::Sign(Sign::NonZero, amount(one)?),
            ("replicas", [one]) => Constraint::Sign(Sign::Replicas, amount(one)?),
            ("any_positive", [_, _, ..]) => {
                args.iter().try_for_each(|name| amount(name).map(drop))?;
                Constraint::AnyPositive(keys(args)?)
            }
            ("differs_from", [one, none]) => Constraint::DiffersFrom(key(one)?, none),
            ("min", [one, least]) => Constraint::Min(amount(one)?, number(least)?),
            ("range", [one, from, to]) => Constraint::Range(amount(one)?, number(from)?, number(to)?),
            ("multiple", [one, unit]) => Constraint::Multiple(amount(one)?, amount(unit)?),
            ("format", [format, one]) => Constraint::Format(Format::named(format)?, key(one)?),
            ("enum", [one, values @ ..]) => Constraint::Enum(key(one)?, values.to_vec()),
            ("enum_any_case", [one, values @ ..]) => Constraint::EnumAnyCase(key(one)?, values.to_vec()),
            ("enum_at_poll", [one, values @ ..]) => Constraint::EnumAtPoll(key(one)?, values.to_vec()),
            ("items", [one, values @ ..]) => Constraint::Items(key(one)?, values.to_vec()),
            ("below", [one, limit]) => Constraint::Below(amount(one)?, amount(limit)?),
            ("differ", [first, second]) => Constraint::Differ(key(first)?, key(second)?),
            ("same_length", [first, second]) => Constraint::SameLength(key(first)?, key(second)?),
            ("cron", [one]) => Constraint::Cron(key(one)?),
            ("zone", [one]) => Constraint::Zone(key(one)?),
            ("one_place", [one]) => Constraint::OnePlace(key(one)?),
            ("identities", [_, ..]) => Constraint::Identities(args.to_vec()),
            ("need_parameter", [parameter]) => Constraint::NeedParameter(key(parameter)?),
            ("aws_credentials", []) => Constraint::AwsCredentials,
            ("gcp_credentials", []) => Constraint::GcpCredentials,
            ("openstack_login", []) => Constraint::OpenstackLogin,
            ("rabbit_protocol", []) => Constraint::RabbitProtocol,
            ("sumo_rows", []) => Constraint::SumoRows,
            _ => return Err(format!("no constraint `{name}` takes {} arguments", args.len())),
        })
    }

    fn check(&self, because: &str, check: &mut TriggerCheck<'_>) {
        match self {
            Constraint::Need(fields) => presence::need(fields, because, check),
            Constraint::AnyOf(conditions) => presence::any_of(conditions, check),
            Constraint::OneOf(conditions) => presence::one_of(conditions, check),
            Constraint::NotBoth(first, second) => presence::not_both(first, second, check),
            Constraint::Together(keys) => presence::together(keys, check),
            Constraint::Forbid(key) => presence::forbid(key, because, check),
            Constraint::NoMetricType(key) => presence::no_metric_type(key, check),
            Constraint::ContainsOrNeed(key, text, other) => {
                presence::contains_or_need(key, text, other, check);
            }
            Constraint::PortIn(port, address) => presence::port_in(port, address, check),
            Constraint::Sign(sign, key) => numbers::sign(*sign, key, check),
            Constraint::AnyPositive(keys) => numbers::any_positive(keys, check),
            Constraint::DiffersFrom(key, none) => numbers::differs_from(key, none, check),
            Constraint::Min(key, least) => numbers::min(key, *least, check),
            Constraint::Range(key, from, to) => numbers::range(key, *from, *to, check),
            Constraint::Multiple(key, unit) => numbers::multiple(key, unit, check),
            Constraint::Format(format, key) => texts::format(format, key, check),
            Constraint::Enum(key, values) => texts::one_of_values(key, values, false, check),
            Constraint::EnumAnyCase(key, values) => {
                texts::one_of_values(key, values, true, check);
            }
            Constraint::EnumAtPoll(key, values) => texts::enum_at_poll(key, values, check),
            Constraint::Items(key, values) => texts::items(key, values, check),
            Constraint::Below(key, limit) => numbers::below(key, limit, check),
            Constraint::Differ(first, second) => texts::differ(first, second, check),
            Constraint::SameLength(first, second) => texts::same_length(first, second, check),
            Constraint::Cron(key) => texts::cron(key, check),
            Constraint::Zone(key) => texts::zone(key, check),
            Constraint::OnePlace(key) => credentials::one_place(key, check),
            Constraint::Identities(known) => credentials::identities(known, check),
            Constraint::NeedParameter(name) => credentials::need_parameter(name, check),
            Constraint::AwsCredentials => credentials::aws(check),
            Constraint::GcpCredentials => credentials::gcp(check),
            Constraint::OpenstackLogin => credentials::openstack(check),
            Constraint::RabbitProtocol => trigger_types::rabbit(check),
            Constraint::SumoRows => trigger_types::sumo_rows(check),
        }
    }
}
