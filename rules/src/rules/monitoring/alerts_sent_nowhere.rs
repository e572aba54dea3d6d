//! A configuration of Alertmanager has no receiver that sends anything.
//!
//! # Why
//! A receiver is a name, and its lists such as `slack_configs`, `pagerduty_configs` and `webhook_configs`
//! say whom Alertmanager tells. A receiver without one is valid and drops what is routed to it. Where no
//! receiver has one, alerts are only seen by who opens the web page: a GPU that falls off the bus at night
//! waits until the morning.
//!
//! It is information: in a cluster for tests that may be meant. Only ConfigMaps are looked at. Secrets and values
//! of charts may be completed by AlertmanagerConfigs.
//!
//! # Fix
//! Add a list with the address of those who have to know to a receiver, and route alerts to it.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: v1
//!  kind: ConfigMap
//!  metadata: {name: alertmanager, namespace: monitoring}
//!  data:
//!    alertmanager.yml: |
//!      route: {receiver: platform}
//!      receivers:
//! -      - name: platform # <-
//! +      - name: platform
//! +        webhook_configs: [{url: "http://pager.platform.svc:8080/alerts"}]
//! ```
//!
//! # References
//! - <https://prometheus.io/docs/alerting/latest/configuration/#receiver>

use crate::rules::gpu::report_place;
use crate::rules::prelude::*;
use crate::source::with_embedded;
use crate::workload::charts::ValuePlace;

pub(crate) static RULE: Rule = Rule {
    id: "alerts-sent-nowhere",
    kinds: &[Kind::CONFIG_MAP],
    docs: docs(include_str!("alerts_sent_nowhere.rs")),
    check: Check::Object(check),
    ..Rule::info(Group::Monitoring)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.may_lack_fields() {
        return None;
    }
    for (name, entry) in object.get("data").entries() {
        let is_configuration = |text: &&str| ["route:", "receivers:"].iter().all(|key| text.contains(key));
        let Some(text) = entry.raw_text().filter(is_configuration) else { continue };
        // Templates of charts write whole receivers.
        if ["{{-", "{{ range", "{{ if", "{{ with", "{{ toYaml"].iter().any(|start| text.contains(start)) {
            continue;
        }
        let place = with_embedded(text, |root| {
            let part = silent_receivers(root)?.span().map(|span| span.start as usize..span.end as usize);
            Some(ValuePlace { node: entry.clone(), is_in_text: true, part })
        });
        let Some(place) = place else { continue };
        let message = "Alertmanager sends no alert: no receiver has a list such as `webhook_configs`";
        report_place(&place, message.to_owned(), ctx)
            .help("add the list of those who have to know to a receiver")
            .identified_by(name);
    }
    None
}

/// The receivers of a configuration of Alertmanager, if each is a name alone.
fn silent_receivers<'a>(root: &Node<'a>) -> Option<Node<'a>> {
    let receivers = root.get("receivers");
    let is_empty = |list: &Node<'_>| list.is_sequence() && list.items().next().is_none();
    let is_silent = |receiver: Node<'_>| {
        let mut fields = receiver.entries().into_iter();
        receiver.get("name").is_set()
            && !receiver.has_unknown_key()
            && fields.all(|(key, value)| key == "name" || is_empty(&value))
    };
    // The collector of OpenTelemetry has receivers, too, by name.
    let is_configuration =
        root.get("route").is_mapping() && !root.has_unknown_key() && receivers.is_sequence();
    (is_configuration && !is_empty(&receivers) && receivers.items().all(is_silent)).then_some(receivers)
}
