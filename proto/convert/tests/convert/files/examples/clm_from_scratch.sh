python run_clm.py \
  --model_type gpt2 --tokenizer_name openai-community/gpt2 \
  --config_overrides="n_embd=1024,n_head=16,n_layer=48,n_positions=102" \
  --dataset_name Salesforce/wikitext --dataset_config_name wikitext-2-raw-v1 \
  --do_train --do_eval --output_dir /tmp/test-clm
