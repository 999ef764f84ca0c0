//! Errors, as the page's scripts read them.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;
use tonic::{Code, Status};
use tonic_types::{FieldViolation, StatusExt};

use crate::control::error::Error;

#[derive(Debug)]
pub(super) struct Failure {
    code: StatusCode,
    /// The code that the RPC would have.
    pub(super) outcome: Code,
    message: String,
}

impl Failure {
    pub(super) fn unauthenticated() -> Failure {
        let message = "run `traind web` and open the URL that it prints".to_owned();
        Failure { code: StatusCode::UNAUTHORIZED, outcome: Code::Unauthenticated, message }
    }

    pub(super) fn planning() -> Failure {
        let message = "two of your plans are still being made; wait for one of them".to_owned();
        Failure { code: StatusCode::TOO_MANY_REQUESTS, outcome: Code::ResourceExhausted, message }
    }

    pub(super) fn busy() -> Failure {
        let message = "too many of your pages follow jobs; close some".to_owned();
        Failure { code: StatusCode::TOO_MANY_REQUESTS, outcome: Code::ResourceExhausted, message }
    }
}

impl From<Error> for Failure {
    /// Uses the code and message of the RPC's status, with a line for each violation of a field.
    fn from(error: Error) -> Failure {
        let status = Status::from(error);
        let code = match status.code() {
            Code::Unauthenticated => StatusCode::UNAUTHORIZED,
            Code::NotFound => StatusCode::NOT_FOUND,
            Code::InvalidArgument => StatusCode::BAD_REQUEST,
            Code::PermissionDenied => StatusCode::FORBIDDEN,
            Code::FailedPrecondition | Code::AlreadyExists => StatusCode::CONFLICT,
            Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
            Code::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
            Code::Unimplemented => StatusCode::NOT_IMPLEMENTED,
            Code::Ok
            | Code::Cancelled
            | Code::Unknown
            | Code::Aborted
            | Code::OutOfRange
            | Code::Internal
            | Code::DataLoss => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let violations = status.get_details_bad_request().map(|it| it.field_violations);
        let line = |it: FieldViolation| format!("\n{}: {}", it.field, it.description);
        let lines = violations.into_iter().flatten().map(line);
        let message = status.message().to_owned() + &lines.collect::<String>();
        Failure { code, outcome: status.code(), message }
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        (self.code, Json(json!({ "error": self.message }))).into_response()
    }
}
