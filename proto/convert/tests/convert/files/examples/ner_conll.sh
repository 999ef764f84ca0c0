python run_ner.py \
  --model_name_or_path google-bert/bert-base-uncased \
  --dataset_name eriktks/conll2003 \
  --output_dir /tmp/test-ner \
  --do_train \
  --do_eval
