//! A trigger connects to Kafka without the encryption or the login that is meant.
//!
//! # Why
//! `tls` is `disable` and `sasl` is none until they are written, whatever the address and the
//! TriggerAuthentication say. Brokers that speak TLS alone close the connection (`client has run out of available
//! brokers to talk to: EOF`), a user and a password are not sent, and the trigger reads no lag.
//!
//! The listeners of Amazon MSK that encrypt have the ports 9094, 9096 and 9098 (public: 9194, 9196, 9198);
//! Confluent Cloud and Azure Event Hubs have no others.
//!
//! # Fix
//! Write `tls: enable` in the metadata, and the mechanism of the login as `sasl`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: keda.sh/v1alpha1
//!  kind: ScaledObject
//!  metadata: {name: indexer, namespace: search}
//!  spec:
//!    scaleTargetRef: {name: indexer}
//!    triggers:
//!      - type: kafka
//!        metadata:
//! -        bootstrapServers: b-1.docs.a1b2c3.c4.kafka.eu-west-1.amazonaws.com:9094 # <-
//! +        bootstrapServers: b-1.docs.a1b2c3.c4.kafka.eu-west-1.amazonaws.com:9094
//!          consumerGroup: indexer
//!          topic: documents
//!          lagThreshold: "50"
//! +        tls: enable
//! ```
//!
//! # References
//! - <https://keda.sh/docs/latest/scalers/apache-kafka/>
//! - <https://docs.aws.amazon.com/msk/latest/developerguide/port-info.html>
//! - <https://learn.microsoft.com/en-us/azure/event-hubs/azure-event-hubs-apache-kafka-overview>

use crate::keda::sources::Authentication;
use crate::rules::autoscaling::keda_trigger_invalid::authentication;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "keda-kafka-security-off",
    reads: &[Kind::TRIGGER_AUTHENTICATION, Kind::CLUSTER_TRIGGER_AUTHENTICATION],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("keda_kafka_security_off.rs")),
    check: Check::KedaTrigger(check),
    ..Rule::warning(Group::Autoscaling)
};

fn check(trigger: &Trigger<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let object = ctx.object();
    let metadata = trigger.metadata();
    if !matches!(trigger.kind()?, "kafka" | "apache-kafka")
        || object.may_lack_fields()
        || metadata.has_unknown_key()
    {
        return None;
    }
    let source = authentication(object, trigger, ctx);
    let given = match source {
        None if trigger.has_authentication() => return None,
        None => Vec::new(),
        Some(source) => match Authentication::of(&source.get("spec")) {
            Authentication::Known(parameters) => parameters.names,
            Authentication::None | Authentication::Unknown => return None,
        },
    };
    tls(&metadata, &given, source, ctx);
    login(&metadata, &given, source?, ctx)
}

fn tls(metadata: &Node<'_>, given: &[&str], source: Option<&Object>, ctx: &mut Context<'_>) -> Option<()> {
    let (servers, tls) = (metadata.get("bootstrapServers"), metadata.get("tls"));
    // keda-trigger-invalid reports that this login needs TLS.
    let is_reported =
        ["sasl", "saslTokenProvider"].iter().any(|key| metadata.get(key).text() == Some("aws_msk_iam"));
    let is_off = tls.is_absent() || tls.text().is_some_and(|text| text.trim() == "disable");
    if is_reported || !is_off || given.contains(&"tls") {
        return None;
    }
    let text = servers.text()?;
    let mut owners = text.split(',').map(|server| encrypted(server.trim()));
    let first = owners.next()??;
    if !owners.all(|owner| owner.is_some()) {
        return None;
    }
    let port = text.split(',').next()?.rsplit(':').next()?.trim();
    let message = format!("port {port} of {first} speaks TLS alone, and the trigger connects without it");
    let finding = ctx.report(&servers, message);
    finding.help("write `tls: enable`").fix(Fix::unsafe_("connect with TLS").set(&tls, json!("enable")));
    if let Some(source) = source {
        finding.related(source, &source.path(&["metadata", "name"]), "this gives no `tls`");
    }
    None
}

/// The ports on which brokers of Amazon MSK encrypt: TLS, SCRAM and IAM, private and public.
const MSK_PORTS: [&str; 6] = ["9094", "9096", "9098", "9194", "9196", "9198"];

/// The service of a broker whose listener speaks TLS alone.
fn encrypted(server: &str) -> Option<&'static str> {
    let (host, port) = server.rsplit_once(':')?;
    let is_aws = host.ends_with(".amazonaws.com") || host.ends_with(".amazonaws.com.cn");
    let is_msk = is_aws && (host.contains(".kafka.") || host.contains(".kafka-serverless."));
    match port {
        port if is_msk && MSK_PORTS.contains(&port) => Some("Amazon MSK"),
        "9092" if host.ends_with(".confluent.cloud") => Some("Confluent Cloud"),
        "9093" if host.ends_with(".servicebus.windows.net") => Some("Azure Event Hubs"),
        _ => None,
    }
}

/// Reports a user and a password that are not sent.
fn login(metadata: &Node<'_>, given: &[&str], source: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let sasl = metadata.get("sasl");
    let has_login = ["username", "password"].iter().all(|parameter| given.contains(parameter));
    if !has_login || !sasl.is_absent() || given.contains(&"sasl") {
        return None;
    }
    let servers = metadata.get("bootstrapServers");
    let mechanism = match servers.text().and_then(|servers| encrypted(servers.split(',').next()?.trim())) {
        Some("Amazon MSK") => "`sasl: scram_sha512`",
        Some(_) => "`sasl: plaintext`",
        None => "`sasl` with the mechanism of the brokers, such as `scram_sha512`",
    };
    ctx.report(&sasl, "the user and the password are not sent: KEDA logs in only where `sasl` is given")
        .help(format!("write {mechanism}"))
        .related(source, &source.path(&["metadata", "name"]), "this gives them");
    None
}
