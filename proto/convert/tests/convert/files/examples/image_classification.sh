python run_image_classification.py \
  --dataset_name beans --output_dir ./beans_outputs/ --remove_unused_columns False \
  --label_column_name labels --do_train --do_eval --learning_rate 2e-5 --num_train_epochs 5
