torchrun --nproc_per_node 8 run_glue.py \
  --model_name_or_path google-bert/bert-large-uncased-whole-word-masking \
  --dataset_name stanfordnlp/imdb \
  --do_train --do_predict \
  --max_seq_length 128 \
  --per_device_train_batch_size 32 \
  --learning_rate 2e-5 \
  --num_train_epochs 3 \
  --fp16 \
  --output_dir /tmp/imdb/
