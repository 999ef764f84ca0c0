//! `traind.v1.Web`.

use std::sync::Arc;

use tonic::{Request, Response, Status};
use traind_proto::v1::{CreateLoginRequest, CreateLoginResponse, web_server};

use crate::control::daemon::Daemon;
use crate::control::error::Error;
use crate::interfaces::server::guard::peer;

pub(crate) struct Web {
    daemon: Arc<Daemon>,
}

impl Web {
    pub(crate) fn new(daemon: Arc<Daemon>) -> Web {
        Web { daemon }
    }
}

#[tonic::async_trait]
impl web_server::Web for Web {
    async fn create_login(
        &self,
        request: Request<CreateLoginRequest>,
    ) -> Result<Response<CreateLoginResponse>, Status> {
        let caller = peer::caller(&request)?;
        let address = self.daemon.settings.web_address.ok_or(Error::NoWeb)?;
        // Behind the #, a part of the URL that browsers do not send.
        let key = self.daemon.logins.create_key(caller).map_err(Error::Random)?;
        Ok(Response::new(CreateLoginResponse { url: format!("http://{address}/#/login/{key}") }))
    }
}
