//! The language codes of mBART, which stand beside each text.

use super::Class;

/// `FAIRSEQ_LANGUAGE_CODES` of mBART.
const OF_MBART: &str = "ar_AR cs_CZ de_DE en_XX es_XX et_EE fi_FI fr_XX gu_IN hi_IN it_IT ja_XX \
    kk_KZ ko_KR lt_LT lv_LV my_MM ne_NP nl_XX ro_RO ru_RU si_LK tr_TR vi_VN zh_CN";
/// The languages that mBART-50 has besides.
const OF_MBART50: &str = "af_ZA az_AZ bn_IN fa_IR he_IL hr_HR id_ID ka_GE km_KH mk_MK ml_IN mn_MN \
    mr_IN pl_PL ps_AF pt_XX sv_SE sw_KE ta_IN te_IN th_TH tl_XX uk_UA ur_PK xh_ZA gl_ES sl_SI";

/// The language of sources where nothing says it.
pub(super) const DEFAULT: &str = "en_XX";

/// The codes of a class, in its order.
pub(super) fn codes(class: Class) -> impl Iterator<Item = &'static str> {
    let more = if class == Class::MBart50 { OF_MBART50 } else { "" };
    OF_MBART.split_whitespace().chain(more.split_whitespace())
}
