//! Records of requests that were denied (optional) or admitted unchecked: a log line, and an Event for the object.
//! Neither contains anything of the object except its name.

use std::sync::Arc;
use std::time::Duration;

use kube::api::{ApiResource, DynamicObject, GroupVersionKind, PostParams};
use kube::{Api, Client};
use serde::Deserialize;
use serde_json::{Value, json};
use time::OffsetDateTime;
use tokio::sync::mpsc;

use crate::cause::Cause;
use crate::logs::{RateLimit, escaped};
use crate::metrics::{Failure, Metrics};
use crate::review::{Decision, ReviewOutcome};
use crate::supervise::catch_panic;

/// Maximum number of waiting Events; further ones are dropped.
const WAITING_EVENTS: usize = 32;
/// Pause after an Event, so that denials put no load on the API server.
const EVENT_PAUSE: Duration = Duration::from_millis(200);
/// Maximum length of a value in a line or an Event, in bytes: anyone who can reach the port may send any value.
const MAX_VALUE_BYTES: usize = 256;
/// Maximum length of the note of an Event, in bytes; the API server accepts 1,024.
const MAX_NOTE_BYTES: usize = 900;

#[derive(Debug)]
pub(crate) struct Denials {
    log: bool,
    events: Option<mpsc::Sender<Record>>,
    limit: RateLimit,
    unchecked_limit: RateLimit,
}

/// A request, and what became of it.
#[derive(Debug)]
struct Record {
    api_version: String,
    kind: String,
    namespace: String,
    name: String,
    operation: String,
    user: String,
    what: What,
    dry_run: bool,
}

#[derive(Debug)]
enum What {
    /// By these rules, separated by commas.
    Denied(String),
    /// For this reason.
    Unchecked(&'static str),
    /// Checked without the objects that may conflict with it.
    Unconfirmed,
}

/// The fields of a request that are read. Of the object only its name is read.
#[derive(Deserialize)]
struct Body {
    request: Request,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Request {
    kind: GroupVersionKindIn,
    operation: String,
    name: Option<String>,
    namespace: Option<String>,
    user_info: User,
    dry_run: Option<bool>,
    object: Option<Named>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct GroupVersionKindIn {
    group: String,
    version: String,
    kind: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct User {
    username: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Named {
    metadata: Names,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Names {
    name: String,
    generate_name: String,
}

impl Denials {
    /// Does not log denials unless `log` is set, and writes no Events unless [`writing_events`](Self::writing_events) is
    /// called.
    pub(crate) fn new(log: bool) -> Denials {
        let limit = |lines| RateLimit::new(lines, Duration::from_secs(10));
        Denials { log, events: None, limit: limit(100), unchecked_limit: limit(20) }
    }

    /// Also writes Events, by the returned task.
    pub(crate) fn writing_events(
        &mut self,
        client: Client,
        metrics: Arc<Metrics>,
    ) -> impl Future<Output = ()> + Send + use<> {
        let (sender, receiver) = mpsc::channel(WAITING_EVENTS);
        self.events = Some(sender);
        write_events(receiver, client, metrics)
    }

    /// Records the outcome of a request if it was denied, or if its review failed.
    pub(crate) fn record(&self, body: &[u8], outcome: &ReviewOutcome) {
        match outcome.decision {
            Decision::Failed => self.record_unchecked(Some(body), "panic"),
            Decision::Denied if self.log || self.events.is_some() => {
                let Some(record) = Record::of_denial(body, &outcome.body) else { return };
                if self.log
                    && let Some(left_out) = self.limit.admit()
                    && let What::Denied(rules) = &record.what
                {
                    let Record { api_version, kind, operation, user, dry_run, .. } = &record;
                    let object = record.object();
                    tracing::info!(
                        operation,
                        api_version,
                        kind,
                        object,
                        rules,
                        user,
                        dry_run,
                        left_out,
                        "denied"
                    );
                }
                self.write_event(record);
            }
            _ => {}
        }
    }

    /// Records a request that was answered without a decision: the API server applies the failure policy of the
    /// webhook. `body` is what arrived of it, if it is whole.
    pub(crate) fn record_failure(&self, body: Option<&[u8]>, failure: Failure) {
        // Other clients than API servers send what is no AdmissionReview.
        if failure != Failure::Malformed {
            self.record_unchecked(body, failure.name());
        }
    }

    /// Records a review for which the API server did not return the objects that may conflict with its object.
    pub(crate) fn record_unconfirmed(&self, body: &[u8]) {
        let record = Record::of(body, What::Unconfirmed);
        self.record_lack(record, "conflicting objects were not read", "not all was checked");
    }

    fn record_unchecked(&self, body: Option<&[u8]>, reason: &'static str) {
        let record = body.and_then(|body| Record::of(body, What::Unchecked(reason)));
        self.record_lack(record, reason, "not checked");
    }

    /// `lack` is what is logged of a request that was not, or not wholly, checked.
    fn record_lack(&self, record: Option<Record>, reason: &'static str, lack: &'static str) {
        if let Some(left_out) = self.unchecked_limit.admit() {
            match &record {
                Some(record) => {
                    let Record { api_version, kind, operation, user, dry_run, .. } = record;
                    let object = record.object();
                    tracing::warn!(
                        reason,
                        operation,
                        api_version,
                        kind,
                        object,
                        user,
                        dry_run,
                        left_out,
                        "{lack}"
                    );
                }
                None => tracing::warn!(reason, left_out, "not checked"),
            }
        }
        if let Some(record) = record {
            self.write_event(record);
        }
    }

    fn write_event(&self, record: Record) {
        if let Some(events) = &self.events
            && !record.dry_run
        {
            let _ = events.try_send(record);
        }
    }
}

impl Record {
    fn of_denial(body: &[u8], answer: &[u8]) -> Option<Record> {
        let answer: Value = serde_json::from_slice(answer).ok()?;
        let rules = answer["response"]["auditAnnotations"]["denied"].as_str().unwrap_or_default();
        Record::of(body, What::Denied(escaped(rules, MAX_NOTE_BYTES / 2)))
    }

    fn of(body: &[u8], what: What) -> Option<Record> {
        let Body { request } = serde_json::from_slice(body).ok()?;
        let names = request.object.unwrap_or_default().metadata;
        let names = [request.name.unwrap_or_default(), names.name, names.generate_name];
        let name = names.into_iter().find(|name| !name.is_empty());
        let short = |text: &str| escaped(text, MAX_VALUE_BYTES);
        let GroupVersionKindIn { group, version, kind } = request.kind;
        let api_version = if group.is_empty() { version } else { format!("{group}/{version}") };
        Some(Record {
            api_version: short(&api_version),
            kind: short(&kind),
            namespace: short(&request.namespace.unwrap_or_default()),
            name: short(&name.unwrap_or_default()),
            operation: short(&request.operation),
            user: short(&request.user_info.username),
            what,
            dry_run: request.dry_run.unwrap_or_default(),
        })
    }

    /// Namespace and name of the object.
    fn object(&self) -> String {
        match self.namespace.as_str() {
            "" => self.name.clone(),
            namespace => format!("{namespace}/{}", self.name),
        }
    }

    /// The Event of `events.k8s.io/v1`. Those of cluster-scoped objects are in `default`.
    fn event(&self, now: OffsetDateTime) -> Value {
        let namespace = if self.namespace.is_empty() { "default" } else { &self.namespace };
        let (operation, user) = (&self.operation, &self.user);
        let (action, reason, note) = match &self.what {
            What::Denied(rules) => {
                ("Deny", "Denied", format!("{operation} by {user} was denied: {}", rules.replace(',', ", ")))
            }
            What::Unchecked(why) => (
                "Review",
                "NotChecked",
                format!("{operation} by {user} was not checked ({why}): the failure policy decided"),
            ),
            What::Unconfirmed => (
                "Review",
                "NotChecked",
                format!(
                    "{operation} by {user} was not checked against objects that may conflict: the API server did not return them"
                ),
            ),
        };
        let instance = std::env::var("HOSTNAME").unwrap_or_else(|_| "gpulint".to_owned());
        let mut regarding = json!({"apiVersion": self.api_version, "kind": self.kind, "name": self.name});
        if !self.namespace.is_empty() {
            regarding["namespace"] = self.namespace.clone().into();
        }
        json!({
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"generateName": "gpulint-", "namespace": namespace},
            "eventTime": micro_time(now),
            "reportingController": "gpulint.dev/webhook",
            "reportingInstance": escaped(&instance, 100),
            "action": action,
            "reason": reason,
            "type": "Warning",
            "regarding": regarding,
            "note": escaped(&note, MAX_NOTE_BYTES)
        })
    }
}

/// A time in the format of Kubernetes, with microseconds.
fn micro_time(now: OffsetDateTime) -> String {
    let (year, month, day) = (now.year(), u8::from(now.month()), now.day());
    let (hour, minute, second, micros) = (now.hour(), now.minute(), now.second(), now.microsecond());
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
}

async fn write_events(mut records: mpsc::Receiver<Record>, client: Client, metrics: Arc<Metrics>) {
    static FAILED: RateLimit = RateLimit::new(1, Duration::from_secs(300));
    let gvk = GroupVersionKind::gvk("events.k8s.io", "v1", "Event");
    let resource = ApiResource::from_gvk_with_plural(&gvk, "events");
    while let Some(record) = records.recv().await {
        let event = record.event(OffsetDateTime::now_utc());
        let namespace = event["metadata"]["namespace"].as_str().unwrap_or("default").to_owned();
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &namespace, &resource);
        let write = async {
            let written = match serde_json::from_value(event) {
                Ok(event) => api.create(&PostParams::default(), &event).await.map(|_| ()),
                Err(error) => Err(kube::Error::SerdeError(error)),
            };
            if let Err(error) = written
                && let Some(left_out) = FAILED.admit()
            {
                tracing::warn!(cause = Cause::of(&error).words(), left_out, "an Event cannot be written");
            }
        };
        catch_panic("events", &metrics, write).await;
        tokio::time::sleep(EVENT_PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_names_the_object_and_nothing_of_it() {
        let body = json!({"request": {
            "kind": {"group": "karpenter.sh", "version": "v1", "kind": "NodePool"},
            "operation": "CREATE", "userInfo": {"username": "jane\u{1b}"}, "dryRun": false,
            "object": {"metadata": {"name": "gpu", "labels": {"password": "hunter2"}}}}});
        let answer = json!({"response": {"auditAnnotations": {"denied": "a,b"}}});
        let (body, answer) = (body.to_string(), answer.to_string());
        let denial = Record::of_denial(body.as_bytes(), answer.as_bytes()).unwrap();
        let event = denial.event(OffsetDateTime::UNIX_EPOCH + Duration::from_micros(1_500_000));
        assert_eq!(event["metadata"]["namespace"], "default");
        assert_eq!(event["eventTime"], "1970-01-01T00:00:01.500000Z");
        let regarding = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": "gpu"});
        assert_eq!(event["regarding"], regarding);
        assert_eq!(event["note"], "CREATE by jane\\u{1b} was denied: a, b");
        assert!(!event.to_string().contains("hunter2"));
    }

    #[test]
    fn a_request_that_was_not_checked_has_an_event_with_the_reason() {
        let (mut denials, mut events) = (Denials::new(false), mpsc::channel(8));
        denials.events = Some(events.0);
        let body = json!({"request": {"kind": {"group": "apps", "version": "v1", "kind": "Deployment"},
            "operation": "UPDATE", "namespace": "ml", "userInfo": {"username": "jane"},
            "object": {"metadata": {"name": "web"}}}})
        .to_string();
        denials.record_failure(Some(body.as_bytes()), Failure::Deadline);
        let event = events.1.try_recv().unwrap().event(OffsetDateTime::UNIX_EPOCH);
        assert_eq!((&event["reason"], &event["metadata"]["namespace"]), (&json!("NotChecked"), &json!("ml")));
        assert_eq!(event["note"], "UPDATE by jane was not checked (deadline): the failure policy decided");
        denials.record_unconfirmed(body.as_bytes());
        let event = events.1.try_recv().unwrap().event(OffsetDateTime::UNIX_EPOCH);
        assert!(event["note"].as_str().unwrap().contains("objects that may conflict"), "{event}");
        // Nothing is known of a body that did not arrive, and what is not an AdmissionReview does not come from the API server.
        denials.record_failure(None, Failure::TooLarge);
        denials.record_failure(Some(b"{}"), Failure::Malformed);
        assert!(events.1.try_recv().is_err());
    }
}
