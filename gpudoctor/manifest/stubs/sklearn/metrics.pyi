"""Numbers that tell how good predictions are."""

from gpudoctor.manifest.effects import measures

@measures()
def average_precision_score(y_true, y_score, **more): ...
@measures()
def cohen_kappa_score(y1, y2, **more): ...
@measures()
def f1_score(y_true, y_pred, **more): ...

fbeta_score = jaccard_score = matthews_corrcoef = precision_score = r2_score = recall_score = f1_score

@measures()
def roc_auc_score(y_true, y_score, **more): ...
