python examples/multiple-choice/run_swag.py \
  --model_name_or_path FacebookAI/roberta-base --do_train --do_eval \
  --learning_rate 5e-5 --num_train_epochs 3 --output_dir /tmp/swag_base
