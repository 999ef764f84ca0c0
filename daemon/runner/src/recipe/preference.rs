//! The objective of a job whose rows are preferences, or whose tokens were replaced.

use std::sync::Arc;

use traind_job_file::{Cpo, CpoLoss, Dpo, DpoDivergence, JobFile, Kto, KtoLoss, TaskName};
use traind_models::tasks::preference::{self, Divergence, PreferenceObjective};

use super::replaced_tokens;

/// The objective; `None` of other tasks.
pub(crate) fn objective(job: &JobFile) -> Option<Arc<dyn PreferenceObjective>> {
    Some(match job.model.task {
        TaskName::Dpo => Arc::new(dpo(&job.dpo)),
        TaskName::Reward => {
            let center_rewards_coefficient = job.reward.center_rewards_coefficient;
            Arc::new(preference::Reward { center_rewards_coefficient })
        }
        TaskName::Orpo => Arc::new(preference::Orpo { beta: job.orpo.beta }),
        TaskName::Cpo => Arc::new(cpo(&job.cpo)),
        TaskName::Kto => Arc::new(kto(&job.kto)),
        TaskName::ReplacedTokenDetection => {
            Arc::new(replaced_tokens::objective(&job.replaced_token_detection))
        }
        _ => return None,
    })
}

fn dpo(dpo: &Dpo) -> preference::Dpo {
    preference::Dpo {
        losses: dpo.weighted_losses(),
        beta: dpo.beta,
        label_smoothing: dpo.label_smoothing,
        divergence: divergence(dpo),
        discopop_tau: dpo.discopop_tau,
        ld_alpha: dpo.ld_alpha,
        use_weighting: dpo.use_weighting,
    }
}

pub(super) fn cpo(cpo: &Cpo) -> preference::Cpo {
    preference::Cpo {
        loss: cpo_loss(cpo.loss_type),
        beta: cpo.beta,
        label_smoothing: cpo.label_smoothing,
        cpo_alpha: cpo.token_loss_weight(),
        simpo_gamma: cpo.simpo_gamma,
        alpha: cpo.alpha,
    }
}

fn cpo_loss(loss: CpoLoss) -> preference::CpoLoss {
    match loss {
        CpoLoss::Sigmoid => preference::CpoLoss::Sigmoid,
        CpoLoss::Hinge => preference::CpoLoss::Hinge,
        CpoLoss::Ipo => preference::CpoLoss::Ipo,
        CpoLoss::Simpo | CpoLoss::Alphapo => preference::CpoLoss::Simpo,
    }
}

pub(super) fn kto(kto: &Kto) -> preference::Kto {
    preference::Kto {
        beta: kto.beta,
        desirable_weight: kto.desirable_weight,
        undesirable_weight: kto.undesirable_weight,
        estimates_divergence: kto.loss_type == KtoLoss::Kto,
    }
}

pub(super) fn divergence(dpo: &Dpo) -> Divergence {
    match dpo.f_divergence_type {
        DpoDivergence::ReverseKl => Divergence::ReverseKl,
        DpoDivergence::ForwardKl => Divergence::ForwardKl,
        DpoDivergence::JsDivergence => Divergence::JensenShannon,
        DpoDivergence::AlphaDivergence => Divergence::Alpha(dpo.f_alpha_divergence_coef),
    }
}
