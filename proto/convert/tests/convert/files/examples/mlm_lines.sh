python run_mlm.py \
  --model_name_or_path FacebookAI/roberta-base \
  --train_file lines.txt --validation_file held_out.txt \
  --line_by_line --pad_to_max_length --max_seq_length 256 --mlm_probability 0.2 \
  --do_train --do_eval \
  --lr_scheduler_type reduce_lr_on_plateau --eval_strategy steps --eval_steps 200 \
  --output_dir /tmp/test-mlm
