torchrun --nproc_per_node=8 question-answering/run_qa.py \
  --model_name_or_path google-bert/bert-large-uncased-whole-word-masking \
  --dataset_name rajpurkar/squad_v2 --version_2_with_negative \
  --do_train --do_eval \
  --learning_rate 3e-5 --num_train_epochs 4 \
  --max_seq_length 384 --doc_stride 128 --n_best_size 30 --null_score_diff_threshold 0.5 \
  --per_device_eval_batch_size=3 --per_device_train_batch_size=3 \
  --save_steps 5000 \
  --output_dir ./models/wwm_uncased_finetuned_squad/
