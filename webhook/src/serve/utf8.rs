//! Answers and requests of the API server as UTF-8.
//!
//! It returns what it keeps as raw JSON (the `parameters` of a ResourceClaim) as it was sent, with bytes in strings that are no
//! UTF-8: Go replaces these when it reads them. kube would reject the whole list.

use axum::http::Response;
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Body;

/// The response with U+FFFD for wrong bytes of its body.
pub(super) fn as_utf8<B>(
    response: Response<B>,
) -> Response<impl Body<Data = Bytes, Error = B::Error> + Send + 'static>
where
    B: Body<Data = Bytes> + Send + 'static,
{
    let mut decoder = Decoder::default();
    response.map(|body| body.map_frame(move |frame| frame.map_data(|data| decoder.decode(data))))
}

/// The body of a request as UTF-8. API servers return raw JSON in an object as it was sent, and Go replaces wrong bytes in
/// strings.
pub(super) fn body_as_utf8(body: Bytes) -> Bytes {
    match str::from_utf8(&body) {
        Ok(_) => body,
        Err(_) => Bytes::from(String::from_utf8_lossy(&body).into_owned()),
    }
}

#[derive(Default)]
struct Decoder {
    /// The beginning of a character, the rest of which is in the next frame.
    cut: Vec<u8>,
}

impl Decoder {
    fn decode(&mut self, data: Bytes) -> Bytes {
        if self.cut.is_empty() && str::from_utf8(&data).is_ok() {
            return data;
        }
        let bytes = [std::mem::take(&mut self.cut).as_slice(), &data].concat();
        let mut text = String::with_capacity(bytes.len());
        let mut chunks = bytes.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            text.push_str(chunk.valid());
            let wrong = chunk.invalid();
            let is_cut = || str::from_utf8(wrong).is_err_and(|error| error.error_len().is_none());
            if chunks.peek().is_none() && is_cut() {
                self.cut = wrong.to_vec();
            } else if !wrong.is_empty() {
                text.push(char::REPLACEMENT_CHARACTER);
            }
        }
        Bytes::from(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_whole_wherever_a_frame_ends() {
        let sent = b"{\"a\": \"\xc3\xa4\xff\xe2\x82\xac\xe2\x82\"}";
        let wanted = String::from_utf8_lossy(sent).into_owned();
        for first in 0..sent.len() {
            for second in first..sent.len() {
                let mut decoder = Decoder::default();
                let frames = [&sent[..first], &sent[first..second], &sent[second..]];
                let read = frames.map(|frame| decoder.decode(Bytes::copy_from_slice(frame)));
                assert_eq!(read.concat(), wanted.as_bytes(), "{first} {second}");
            }
        }
    }
}
