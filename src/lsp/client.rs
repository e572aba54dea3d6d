//! The editor at the other end: its capabilities, and the messages to and from it.

use std::collections::VecDeque;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, select};
use lsp_server::{Connection, ErrorCode, Message, Notification, Request, RequestId, Response};
use lsp_types::notification::Notification as _;
use lsp_types::{
    ClientCapabilities, LogMessageParams, MessageType, NumberOrString, ProgressParams, ProgressParamsValue,
    ShowMessageParams, WorkDoneProgress, WorkDoneProgressBegin, WorkDoneProgressCreateParams,
    WorkDoneProgressEnd, WorkDoneProgressReport,
};
use lsp_types::{notification, request};
use serde::Serialize;
use serde_json::Value;

use crate::error::CliError;

use super::position::Encoding;

/// The interval at which progress is shown and at which some work is checked.
const TICK: Duration = Duration::from_millis(5);

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Capabilities {
    /// The client requests diagnostics.
    pub(crate) pulls_diagnostics: bool,
    /// The client requests diagnostics again when the server notifies it that they have changed.
    pub(crate) refreshes_diagnostics: bool,
    pub(crate) refreshes_hints: bool,
    pub(crate) watches_files: bool,
    /// The client answers requests for its configuration.
    pub(crate) has_configuration: bool,
    pub(crate) shows_progress: bool,
    /// The client opens a page that the server names.
    pub(crate) shows_documents: bool,
    /// Edits may contain the version of the text that they apply to.
    pub(crate) has_document_changes: bool,
    pub(crate) shows_related: bool,
    /// The client shows actions that cannot be chosen, with the reason.
    pub(crate) shows_disabled: bool,
    /// The client requests the edit of an action when the user chooses the action.
    pub(crate) resolves_edits: bool,
}

impl Capabilities {
    fn of(all: &ClientCapabilities) -> Capabilities {
        let workspace = all.workspace.as_ref();
        let window = all.window.as_ref();
        let text = all.text_document.as_ref();
        let edits = workspace.and_then(|all| all.workspace_edit.as_ref());
        let watched = workspace.and_then(|all| all.did_change_watched_files.as_ref());
        let refreshes = workspace.and_then(|all| all.diagnostic.as_ref());
        let hints = workspace.and_then(|all| all.inlay_hint.as_ref());
        let actions = text.and_then(|all| all.code_action.as_ref());
        let keeps_data = actions.and_then(|all| all.data_support) == Some(true);
        let resolved = actions.and_then(|all| Some(&all.resolve_support.as_ref()?.properties));
        let published = text.and_then(|all| all.publish_diagnostics.as_ref());
        let shows = window.and_then(|all| all.show_document.as_ref());
        Capabilities {
            pulls_diagnostics: text.is_some_and(|all| all.diagnostic.is_some()),
            refreshes_diagnostics: refreshes.and_then(|all| all.refresh_support) == Some(true),
            refreshes_hints: hints.and_then(|all| all.refresh_support) == Some(true),
            watches_files: watched.and_then(|all| all.dynamic_registration) == Some(true),
            has_configuration: workspace.and_then(|all| all.configuration) == Some(true),
            shows_progress: window.and_then(|all| all.work_done_progress) == Some(true),
            shows_documents: shows.is_some_and(|all| all.support),
            has_document_changes: edits.and_then(|all| all.document_changes) == Some(true),
            shows_related: published.and_then(|all| all.related_information) == Some(true),
            shows_disabled: actions.and_then(|all| all.disabled_support) == Some(true),
            resolves_edits: keeps_data && resolved.is_some_and(|all| all.iter().any(|name| name == "edit")),
        }
    }
}

pub(crate) struct Client {
    connection: Connection,
    /// Messages of threads in the background.
    background: (Sender<Message>, Receiver<Message>),
    waiting: VecDeque<Message>,
    next: i32,
    pub(crate) can: Capabilities,
    pub(crate) encoding: Encoding,
}

impl Client {
    pub(crate) fn new(connection: Connection, capabilities: &ClientCapabilities) -> Client {
        let general = capabilities.general.as_ref();
        let offered = general.and_then(|all| all.position_encodings.as_deref());
        Client {
            connection,
            background: crossbeam_channel::unbounded(),
            waiting: VecDeque::new(),
            next: 0,
            can: Capabilities::of(capabilities),
            encoding: Encoding::negotiate(offered),
        }
    }

    pub(crate) fn next(&mut self) -> Option<Message> {
        loop {
            self.receive();
            if let Some(message) = self.waiting.pop_front() {
                return Some(message);
            }
            // The loop goes on after a cancellation, because the cancelled request may have been the only one
            // in the queue.
            let message = select! {
                recv(self.connection.receiver) -> message => message,
                recv(self.background.1) -> message => message,
            };
            self.take(message.ok()?);
        }
    }

    /// Whether the queue is empty.
    pub(crate) fn is_idle(&mut self) -> bool {
        self.receive();
        self.waiting.is_empty()
    }

    /// Waits for a message, at most for `most`. The message stays in the queue for [`Client::next`]. Without a client no
    /// message comes, and the time passes all the same.
    pub(crate) fn wait(&mut self, most: Duration) -> Option<&Message> {
        match self.connection.receiver.recv_timeout(most) {
            Ok(message) => self.take(message),
            Err(RecvTimeoutError::Timeout) => return None,
            Err(RecvTimeoutError::Disconnected) => {
                std::thread::sleep(most);
                return None;
            }
        }
        self.waiting.back()
    }

    fn receive(&mut self) {
        while let Ok(message) = self.connection.receiver.try_recv().or_else(|_| self.background.1.try_recv())
        {
            self.take(message);
        }
    }

    /// Adds a message to the queue. If it cancels a request in the queue, that request is answered at once.
    fn take(&mut self, message: Message) {
        if let Message::Notification(Notification { method, params }) = &message
            && method == notification::Cancel::METHOD
        {
            let id = match serde_json::from_value::<lsp_types::CancelParams>(params.clone()) {
                Ok(lsp_types::CancelParams { id: NumberOrString::Number(id) }) => RequestId::from(id),
                Ok(lsp_types::CancelParams { id: NumberOrString::String(id) }) => RequestId::from(id),
                Err(_) => return,
            };
            let is_it = |message: &Message| matches!(message, Message::Request(request) if request.id == id);
            if let Some(at) = self.waiting.iter().position(is_it) {
                self.waiting.remove(at);
                self.fail(id, ErrorCode::RequestCanceled, "cancelled");
            }
            return;
        }
        self.waiting.push_back(message);
    }

    /// What a thread in the background keeps until it ends.
    pub(crate) fn waker(&self) -> Waker {
        Waker(self.background.0.clone())
    }

    fn send(&self, message: Message) {
        // Sending fails if the client is gone. It has then closed the other end too, which ends the loop.
        let _ = self.connection.sender.send(message);
    }

    pub(crate) fn answer(&self, id: RequestId, result: impl Serialize) {
        match serde_json::to_value(result) {
            Ok(value) => self.send(Response::new_ok(id, value).into()),
            Err(error) => self.fail(id, ErrorCode::InternalError, &error.to_string()),
        }
    }

    pub(crate) fn fail(&self, id: RequestId, code: ErrorCode, message: &str) {
        self.send(Response::new_err(id, code as i32, message.to_owned()).into());
    }

    pub(crate) fn notify<N: notification::Notification>(&self, params: N::Params) {
        self.send(Notification::new(N::METHOD.to_owned(), params).into());
    }

    /// Sends a request. The answer is a message with the returned id.
    pub(crate) fn request<R: request::Request>(&mut self, params: R::Params) -> RequestId {
        self.next += 1;
        let id = RequestId::from(format!("gpulint-{}", self.next));
        self.send(Request::new(id.clone(), R::METHOD.to_owned(), params).into());
        id
    }

    /// Writes to the log of the server in the editor.
    pub(crate) fn log(&self, kind: MessageType, message: impl Into<String>) {
        self.notify::<notification::LogMessage>(LogMessageParams { typ: kind, message: message.into() });
    }

    pub(crate) fn show(&self, kind: MessageType, message: impl Into<String>) {
        self.notify::<notification::ShowMessage>(ShowMessageParams { typ: kind, message: message.into() });
    }

    pub(crate) fn begin(connection: &Connection) -> Result<(RequestId, Value), CliError> {
        connection.initialize_start().map_err(|error| CliError::Usage(error.to_string()))
    }

    pub(crate) fn finish(&self, id: RequestId, result: Value) -> Result<(), CliError> {
        self.connection.initialize_finish(id, result).map_err(|error| CliError::Usage(error.to_string()))
    }
}

/// Puts a notification of [`Waker::METHOD`] into the queue when it is dropped.
pub(crate) struct Waker(Sender<Message>);

impl Waker {
    pub(crate) const METHOD: &str = "$/gpulint/background";
}

impl Drop for Waker {
    fn drop(&mut self) {
        // This fails if the loop has ended.
        let _ = self.0.send(Notification::new(Waker::METHOD.to_owned(), Value::Null).into());
    }
}

/// A progress report in the editor, for as long as some work lasts.
pub(crate) struct Progress {
    token: NumberOrString,
    /// The request to create the progress report; `None` once the client has answered it.
    request: Option<RequestId>,
    begun: bool,
    percentage: u32,
}

impl Progress {
    pub(crate) fn new(client: &mut Client, name: &str) -> Progress {
        let token = NumberOrString::String(format!("gpulint/{name}"));
        let params = WorkDoneProgressCreateParams { token: token.clone() };
        let request =
            client.can.shows_progress.then(|| client.request::<request::WorkDoneProgressCreate>(params));
        Progress { token, request, begun: false, percentage: 0 }
    }

    /// Handles the answer of the client to the request.
    fn answered(&mut self, client: &Client, response: &Response, title: &str) {
        if self.request.as_ref() == Some(&response.id) && response.response_result.is_ok() {
            self.begun = true;
            self.send(
                client,
                WorkDoneProgress::Begin(WorkDoneProgressBegin {
                    title: title.to_owned(),
                    cancellable: Some(false),
                    message: None,
                    percentage: Some(0),
                }),
            );
        }
    }

    fn report(&mut self, client: &Client, done: usize, total: usize) {
        let percentage = u32::try_from(done * 100 / total.max(1)).unwrap_or(100).min(100);
        if self.begun && percentage != self.percentage {
            self.percentage = percentage;
            let message = Some(format!("{done} of {total} files"));
            let percentage = Some(percentage);
            let report = WorkDoneProgressReport { cancellable: Some(false), message, percentage };
            self.send(client, WorkDoneProgress::Report(report));
        }
    }

    /// Does some work on another thread and reports on it; `counts` gives how many files of how many are done. Messages of the
    /// client stay in the queue.
    pub(crate) fn during<T: Send>(
        &mut self,
        client: &mut Client,
        title: &str,
        counts: impl Fn() -> [usize; 2],
        work: impl FnOnce() -> T + Send,
    ) -> std::thread::Result<T> {
        std::thread::scope(|scope| {
            let worker = scope.spawn(work);
            while !worker.is_finished() {
                if let Some(Message::Response(response)) = client.wait(TICK).cloned() {
                    self.answered(client, &response, title);
                }
                let [done, total] = counts();
                self.report(client, done, total);
            }
            worker.join()
        })
    }

    pub(crate) fn end(self, client: &Client) {
        if self.begun {
            self.send(client, WorkDoneProgress::End(WorkDoneProgressEnd { message: None }));
        }
    }

    fn send(&self, client: &Client, value: WorkDoneProgress) {
        client.notify::<notification::Progress>(ProgressParams {
            token: self.token.clone(),
            value: ProgressParamsValue::WorkDone(value),
        });
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn waiting_for_a_client_that_is_gone_takes_its_time() {
        let (server, editor) = Connection::memory();
        let mut client = Client::new(server, &ClientCapabilities::default());
        drop(editor);
        let (began, mut rounds) = (Instant::now(), 0);
        while began.elapsed() < Duration::from_millis(200) {
            assert!(client.wait(Duration::from_millis(10)).is_none());
            rounds += 1;
        }
        assert!(rounds <= 20, "{rounds} rounds in {:?}", began.elapsed());
    }
}
