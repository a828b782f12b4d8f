"""The page of the viewer of heads: its style, and the script that turns the still and the table
into something to operate.

The script builds every control itself, so that where scripts are stripped or off no dead control is
left, only the still and the table. It fetches nothing, sets no global name, and takes tokens as
text, never as markup. What takes keys carries ``data-lm-suppress-shortcuts``: JupyterLab would move
to the next cell at an arrow key, and looks for that mark on the very element."""

from __future__ import annotations

__all__ = ["CARD", "SCRIPT", "STYLE"]

CARD = "background:#fbfbf8;color:#222;border:1px solid #ccc;padding:10px;max-width:760px"
"""The style of the whole, on the element itself: every colour is set, so that it reads on a
light and on a dark page.
"""

# @ID@ is replaced; hv- keeps the names apart from those of a page's own style. The script puts this
# in: where there is no script there is nothing to lay out, and no text of a style is left.
STYLE = """
#@ID@{border-radius:6px;box-sizing:border-box;font:14px/1.4 system-ui,sans-serif;text-align:left;color-scheme:light}
#@ID@ *{box-sizing:border-box;color:inherit}
#@ID@ img{max-width:100%;height:auto;display:block;margin:0 auto;background:#fbfbf8;padding:0;filter:none}
#@ID@ .hv-bar{display:flex;flex-wrap:wrap;gap:8px 16px;margin:0 0 8px;padding:0;border:0;min-width:0}
#@ID@ label{display:flex;gap:6px;align-items:center;font-weight:600;margin:0}
#@ID@ select{font:inherit;font-weight:400;color:#222;background:#fff;border:1px solid #666;border-radius:4px;padding:3px 6px;min-height:32px;
max-width:230px}
#@ID@ select:focus,#@ID@ [tabindex]:focus{outline:3px solid #c2410c;outline-offset:1px}
#@ID@ .hv-both{display:flex;flex-wrap:wrap;gap:12px;align-items:flex-start}
#@ID@ .hv-map{flex:1 1 330px;min-width:0}
#@ID@ .hv-map svg{width:100%;height:auto;display:block}
#@ID@ .hv-map text{font-family:system-ui,sans-serif;fill:#222}
#@ID@ .hv-map .hv-row{cursor:pointer}
#@ID@ .hv-numbers{flex:1 1 210px;max-height:430px;overflow:auto;margin:0}
#@ID@ table{display:table;border-collapse:collapse;width:100%;margin:0;font-size:13px;background:#fbfbf8;color:#222;border:0}
#@ID@ caption{caption-side:top;text-align:left;font-weight:600;color:#222;padding:0 0 4px}
#@ID@ tr,#@ID@ tbody tr:nth-child(odd),#@ID@ tr:hover{background:#fbfbf8!important}
#@ID@ th,#@ID@ td{padding:1px 6px;border:0;border-bottom:1px solid #ddd;text-align:left;font-weight:400;background:transparent;color:#222}
#@ID@ thead th{font-weight:600}
#@ID@ td,#@ID@ thead th+th{text-align:right;font-variant-numeric:tabular-nums}
#@ID@ tr.hv-top th,#@ID@ tr.hv-top td{font-weight:700}
#@ID@ .hv-say{margin:0 0 8px;overflow-wrap:anywhere}
"""

# Weights come as two digits of base 36 each, in thousandths.
SCRIPT = """
(function(){
var DATA=@DATA@;
var NS='http://www.w3.org/2000/svg';
function node(tag,text,className){var e=document.createElement(tag);if(text!==undefined)e.textContent=text;
 if(className)e.className=className;return e;}
function shape(tag,attributes,text){var e=document.createElementNS(NS,tag);
 for(var k in attributes)e.setAttribute(k,attributes[k]);if(text!==undefined)e.textContent=text;return e;}
function quiet(e){e.setAttribute('data-lm-suppress-shortcuts','true');}
function mix(a,b,t){return 'rgb('+a.map(function(v,i){return Math.round(v+(b[i]-v)*t);}).join(',')+')';}
function colour(w){var light=[247,251,255],mid=[107,174,214],dark=[8,48,107];
 return w<0.5?mix(light,mid,2*w):mix(mid,dark,2*w-1);}
function start(root){
 if(root.getAttribute('data-ready'))return;
 root.setAttribute('data-ready','yes');
 var at={part:DATA.start[0],layer:DATA.start[1],head:DATA.start[2],row:DATA.start[3]};
 var still=root.querySelector('.hv-still'),table=root.querySelector('table'),numbers=root.querySelector('.hv-numbers');
  root.appendChild(node('style',@STYLE@));
 var bar=node('div',undefined,'hv-bar'),say=node('p',undefined,'hv-say'),map=node('div',undefined,'hv-map'),both=node('div',undefined,'hv-both');
 bar.setAttribute('role','group');bar.setAttribute('aria-label','What is shown');
 say.setAttribute('aria-live','polite');
 var choose={};
 function control(key,label){var l=node('label',label+' '),s=node('select');quiet(s);l.appendChild(s);bar.appendChild(l);choose[key]=s;
  function changed(){if(+s.value!==at[key]){at[key]=+s.value;show();}}
  s.addEventListener('change',changed);s.addEventListener('input',changed);return l;}
 var parts=control('part','Attention');control('layer','Layer');control('head','Head');control('row','Word that looks');
 parts.hidden=DATA.parts.length<2;if(parts.hidden)parts.style.display='none';
 function fill(select,names,value){
  var same=select.options.length===names.length&&names.every(function(name,i){return select.options[i].textContent===name;});
  if(!same){while(select.firstChild)select.removeChild(select.firstChild);
   names.forEach(function(name,i){var o=node('option',name);o.value=i;select.appendChild(o);});}
  select.value=value;}
 function count(n){var out=[];for(var i=1;i<=n;i++)out.push(''+i);return out;}
 function limit(key,n){if(at[key]>=n)at[key]=n-1;}
 function weight(p,r,c){var k=((at.layer*p.heads+at.head)*p.rows.length+r)*p.columns.length+c;
  return parseInt(p.weights.substr(2*k,2),36)/1000;}
 function short(word){return word.length>12?word.slice(0,11)+'\\u2026':word;}
 function draw(p){
  var m=p.rows.length,n=p.columns.length,cell=16,wide=function(words){return 12+6.9*Math.max.apply(null,words.map(function(w){return short(w).length;}));};
  var left=wide(p.rows),top=wide(p.columns)*0.85+8,w=left+n*cell+top*0.6,h=top+m*cell+2;
  var svg=shape('svg',{viewBox:'0 0 '+w+' '+h,role:'img','aria-label':'Map of '+p.name+', layer '+(at.layer+1)+', head '+(at.head+1)+
   ': one row per word that looks, one column per word that is looked at, darker is more weight'});
  svg.style.maxWidth=Math.round(1.5*w)+'px';
  p.columns.forEach(function(word,c){var x=left+(c+0.5)*cell,y=top-4;
   svg.appendChild(shape('text',{x:x,y:y,'font-size':10.5,transform:'rotate(-55 '+x+' '+y+')'},short(word)));});
  p.rows.forEach(function(word,r){
   var g=shape('g',{'class':'hv-row'});
   g.appendChild(shape('rect',{x:0,y:top+r*cell,width:left,height:cell,fill:r===at.row?'#ffe3d1':'#fbfbf8'}));
   g.appendChild(shape('text',{x:left-4,y:top+r*cell+12,'font-size':10.5,'text-anchor':'end','font-weight':r===at.row?700:400},short(word)));
   for(var c=0;c<n;c++)g.appendChild(shape('rect',{x:left+c*cell,y:top+r*cell,width:cell-0.6,height:cell-0.6,fill:colour(weight(p,r,c))}));
   g.addEventListener('click',function(){at.row=r;show();});
   svg.appendChild(g);});
  svg.appendChild(shape('rect',{x:0.8,y:top+at.row*cell-0.3,width:left+n*cell-1,height:cell,fill:'none',stroke:'#c2410c','stroke-width':1.6}));
  while(map.firstChild)map.removeChild(map.firstChild);
  map.appendChild(svg);}
 function show(){
  var p=DATA.parts[at.part];
  limit('layer',p.layers);limit('head',p.heads);limit('row',p.rows.length);
  fill(choose.part,DATA.parts.map(function(x){return x.name;}),at.part);
  fill(choose.layer,count(p.layers),at.layer);fill(choose.head,count(p.heads),at.head);
  fill(choose.row,p.rows.map(function(word,i){return (i+1)+' '+word;}),at.row);
  draw(p);
  var row=p.columns.map(function(_,c){return weight(p,at.row,c);}),most=row.indexOf(Math.max.apply(null,row));
  var where=p.name+', layer '+(at.layer+1)+', head '+(at.head+1);
  table.caption.textContent='Weights of \\u201c'+p.rows[at.row]+'\\u201d: '+where;
  var body=table.tBodies[0];while(body.firstChild)body.removeChild(body.firstChild);
  row.forEach(function(w,c){var tr=node('tr',undefined,c===most?'hv-top':'');var th=node('th',p.columns[c]);th.scope='row';
   tr.appendChild(th);tr.appendChild(node('td',w.toFixed(3)));body.appendChild(tr);});
  say.textContent='In '+where+', \\u201c'+p.rows[at.row]+'\\u201d looks most at \\u201c'+p.columns[most]+'\\u201d ('+row[most].toFixed(3)+').';}
 quiet(numbers);numbers.setAttribute('tabindex','0');numbers.setAttribute('role','region');numbers.setAttribute('aria-label','Table of the weights '+(document.querySelectorAll('.hv-numbers').length+1));
 root.insertBefore(bar,root.firstChild);
 root.insertBefore(say,bar.nextSibling);
 both.appendChild(map);root.appendChild(both);both.appendChild(numbers);
 still.hidden=true;still.style.display='none';
 show();}
Array.prototype.forEach.call(document.querySelectorAll('[data-attnbook-heads="@ID@"]'),start);
})();
"""
